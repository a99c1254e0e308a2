//! Reads accounts as they stand, with their rows on the boards and the holds that have something of them: for whoever checks that all
//! of it agrees with the ledger, of which it tells the last number at the same moment. Twin of `survey.lua`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::commit::Hold;
use super::plan::{Account, Mark, put_code, put_short, take_int, take_short};
use crate::id::RealmId;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// The most accounts or holds that are read at once, about.
pub const SURVEY_MAX: usize = 200;

/// Reads accounts as they stand.
#[derive(Clone, Debug)]
pub struct Survey {
    place: Place,
    realm: RealmId,
    /// The assets that have a board.
    boards: Arc<[Arc<str>]>,
    of: Of,
}

/// Which accounts.
#[derive(Clone, Debug)]
enum Of {
    /// Some of all there are, from a cursor on.
    Page(u64),
    /// These, and these holds.
    These(Vec<Account>, Vec<u64>),
}

/// What was read, all at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// When.
    pub now: Micros,
    /// The number of the last commit.
    pub last: u64,
    /// Where the next page begins; 0: there are no more.
    pub next: u64,
    /// How many are on each board.
    pub on_boards: Vec<u64>,
    /// The accounts.
    pub accounts: Vec<Stood>,
    /// What the marks of holds say: of those that were asked for, and of all that have something of these accounts.
    pub holds: BTreeMap<u64, Option<Hold>>,
}

/// An account as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stood {
    /// Which.
    pub account: Account,
    /// What it says; none if that cannot be read.
    pub says: Option<Stand>,
    /// The score of its row on the board, if it is to have one and has it.
    pub row: Option<i64>,
}

/// What an account says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stand {
    /// What there is.
    pub value: i64,
    /// The commit that changed it last.
    pub since: u64,
    /// What is on hold: by which hold, how much, until when. Also what has ended, until it is written next.
    pub liens: Vec<(u64, i64, Micros)>,
}

impl Survey {
    /// About [`SURVEY_MAX`] of all accounts, from a cursor on; the first is 0.
    pub fn page(place: Place, realm: RealmId, boards: Arc<[Arc<str>]>, cursor: u64) -> Survey {
        Survey { place, realm, boards, of: Of::Page(cursor) }
    }

    /// These accounts and holds.
    pub fn these(place: Place, realm: RealmId, boards: Arc<[Arc<str>]>, accounts: Vec<Account>, holds: Vec<u64>) -> Survey {
        Survey { place, realm, boards, of: Of::These(accounts, holds) }
    }

    fn has_row(&self, account: &Account, value: i64) -> bool {
        value > 0 && !account.is_own() && self.boards.contains(&account.asset)
    }
}

impl Operation for Survey {
    type Answer = Surveyed;

    const SCRIPT: Script = Script::long("realm/survey");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.realm.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Surveyed, Full> {
        let (realms, place, realm) = (&state.realms, &self.place, &self.realm);
        let (names, next, asked) = match &self.of {
            Of::Page(cursor) => {
                let (found, next) = realms.page(place, realm, *cursor, SURVEY_MAX);
                (found.into_iter().filter_map(|(name, _)| Account::read(name)).collect(), next, Vec::new())
            }
            Of::These(accounts, holds) => (accounts.clone(), 0, holds.clone()),
        };
        let hold = |number: u64| realms.mark(place, realm, &Hold::mark(number), now).and_then(|mark| Hold::read(&mark, now));
        let mut holds: BTreeMap<u64, Option<Hold>> = asked.into_iter().map(|number| (number, hold(number))).collect();
        let accounts = names.into_iter().map(|account| {
            let cell = realms.cell(place, realm, &account);
            let has_row = self.has_row(&account, cell.value);
            let board = realms.board(place, realm, &account.asset).filter(|_| has_row);
            let row = board.and_then(|board| board.rank(&account.owner, &cell)).map(|_| cell.value);
            for (number, ..) in cell.liens.iter().filter(|(.., until)| *until > now) {
                holds.entry(*number).or_insert_with(|| hold(*number));
            }
            Stood { account, says: Some(Stand { value: cell.value, since: cell.since, liens: cell.liens }), row }
        });
        let accounts = accounts.collect();
        let on_board =
            |asset: &Arc<str>| realms.board(place, realm, asset).map_or(0, |board| u64::try_from(board.len()).unwrap_or(u64::MAX));
        let on_boards = self.boards.iter().map(on_board).collect();
        let (last, _) = realms.ledger(place, realm, u64::MAX);
        Ok(Surveyed { now, last, next, on_boards, accounts, holds })
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::realm(&self.place, &self.realm, "cells"));
        let out = &mut call.given;
        let (cursor, accounts, holds): (u64, &[Account], &[u64]) = match &self.of {
            Of::Page(cursor) => (*cursor, &[], &[]),
            Of::These(accounts, holds) => (0, accounts, holds),
        };
        out.push(u8::from(matches!(self.of, Of::These(..))));
        record::put(out, [cursor]);
        out.extend_from_slice(&u32::try_from(SURVEY_MAX).unwrap_or(0).to_le_bytes());
        let count = |length: usize| u16::try_from(length).expect("what is asked for at once is bounded").to_le_bytes();
        out.extend_from_slice(&count(self.boards.len()));
        self.boards.iter().for_each(|asset| put_code(out, asset));
        out.extend_from_slice(&count(accounts.len()));
        accounts.iter().for_each(|account| put_short(out, &account.spell()));
        out.extend_from_slice(&count(holds.len()));
        holds.iter().for_each(|hold| record::put(out, [*hold]));
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn is_kept(&self, _answer: &Surveyed) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    /// It is never kept.
    fn reply(&self, _answer: &Surveyed) -> Reply {
        Reply::new(Vec::new())
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Surveyed, BadReply> {
        self.read(reply.as_bytes()).ok_or_else(|| reply.bad("is no survey of accounts"))
    }
}

impl Survey {
    fn read(&self, mut rest: &[u8]) -> Option<Surveyed> {
        let [b'k'] = record::take(&mut rest)? else { return None };
        let now = record::take_micros(&mut rest)?;
        let (last, next) = (record::take_number(&mut rest)?, record::take_number(&mut rest)?);
        let on_boards = self.boards.iter().map(|_| record::take_number(&mut rest)).collect::<Option<Vec<_>>>()?;
        let hold = |bytes: &[u8]| Hold::read(&Mark::unpack(bytes)?, now);
        let mut holds = BTreeMap::new();
        if let Of::These(_, asked) = &self.of {
            for number in asked {
                holds.insert(*number, hold(record::take_bytes(&mut rest)?));
            }
        }
        let many = u32::from_le_bytes(record::take(&mut rest)?);
        let accounts = (0..many).map(|_| {
            let name = take_short(&mut rest)?;
            // What is no account is told of as one that nobody has.
            let account =
                Account::read(name).unwrap_or_else(|| Account { asset: String::from_utf8_lossy(name).as_ref().into(), owner: "".into() });
            let says = Stand::read(record::take_bytes(&mut rest)?);
            let [has_row] = record::take(&mut rest)?;
            let score = take_int(&mut rest)?;
            Some(Stood { account, says, row: (has_row == 1).then_some(score) })
        });
        let accounts = accounts.collect::<Option<Vec<_>>>()?;
        while !rest.is_empty() {
            let number = record::take_number(&mut rest)?;
            holds.insert(number, hold(record::take_bytes(&mut rest)?));
        }
        Some(Surveyed { now, last, next, on_boards, accounts, holds })
    }
}

impl Stand {
    /// Nothing is stored of who has nothing.
    fn read(mut rest: &[u8]) -> Option<Stand> {
        if rest.is_empty() {
            return Some(Stand::default());
        }
        let (value, since) = (take_int(&mut rest)?, record::take_number(&mut rest)?);
        let mut liens = Vec::new();
        while !rest.is_empty() {
            liens.push((record::take_number(&mut rest)?, take_int(&mut rest)?, record::take_micros(&mut rest)?));
        }
        Some(Stand { value, since, liens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SpaceId;
    use crate::partition::Partitions;
    use crate::record::{Family, Record};

    /// What no plan wrote, as if somebody had changed the files.
    fn put(state: &mut State, place: &Place, name: &str, value: i64, lien: Option<(u64, i64, u64)>) {
        let key = [place.space.as_str(), "ajo", name].join("\0");
        let mut record = vec![1];
        record.extend(value.to_le_bytes());
        record.extend(3_u64.to_le_bytes());
        if let Some((hold, qty, until)) = lien {
            [hold.to_le_bytes(), qty.to_le_bytes(), until.to_le_bytes()].iter().for_each(|number| record.extend(number));
        }
        let record = Record { family: Family::Account, partition: place.partition, key: key.as_bytes(), value: Some(&record) };
        state.load(&record).unwrap();
    }

    #[test]
    fn what_nobody_committed_is_told_of_too() {
        let (space, realm) = (SpaceId::new("team").unwrap(), RealmId::new("ajo").unwrap());
        let place = Partitions::DEFAULT.place(&space, "ajo");
        let mut state = State::new(place.partition);
        (0..500).for_each(|number| put(&mut state, &place, &format!("herb:{number}"), 2, None));
        put(&mut state, &place, "ajo:ghost", 7, Some((5, 4, 1_000)));
        state.loaded();
        let boards: Arc<[Arc<str>]> = [Arc::from("ajo")].into();
        let (mut cursor, mut found, mut pages) = (0, BTreeMap::new(), 0);
        loop {
            let page = Survey::page(place.clone(), realm.clone(), Arc::clone(&boards), cursor);
            let told = page.apply(&mut state, Micros::saturating(10)).unwrap();
            assert_eq!((told.last, told.on_boards), (0, vec![1]), "the ledger knows of none of it, the board of one");
            assert!(told.accounts.len() <= SURVEY_MAX);
            let has_ghost = told.accounts.iter().any(|stood| &*stood.account.owner == "ghost");
            assert_eq!(told.holds, if has_ghost { BTreeMap::from([(5, None)]) } else { BTreeMap::new() }, "there is no such hold");
            found.extend(told.accounts.into_iter().map(|stood| (stood.account.spell(), stood)));
            (cursor, pages) = (told.next, pages + 1);
            if cursor == 0 {
                break;
            }
        }
        assert!(found.len() == 501 && pages >= 3, "{} in {pages} pages", found.len());
        let ghost = found.get(&b"ajo:ghost"[..]).unwrap();
        assert_eq!((ghost.says.as_ref().map(|says| (says.value, says.since)), ghost.row), (Some((7, 3)), Some(7)));
    }
}
