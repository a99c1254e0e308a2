//! Reads a leaderboard: the first ones, or those around an owner. Twin of `board.lua`.

use std::sync::Arc;

use super::plan::{Account, put_code, put_short, take_int};
use crate::id::RealmId;
use crate::int::Micros;
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// The most rows that are read at once.
pub const BOARD_MAX: usize = 200;

/// Reads a leaderboard.
#[derive(Clone, Debug)]
pub struct ReadBoard {
    place: Place,
    realm: RealmId,
    asset: Arc<str>,
    owner: Arc<str>,
    from: usize,
    limit: usize,
}

/// A part of a leaderboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// How many owners are on it.
    pub total: u64,
    /// The rank of the owner it was asked for, from 1; none if they are not on it.
    pub rank: Option<u64>,
    /// The rank of the first row, from 1.
    pub first: u64,
    /// Owners and what they have.
    pub rows: Vec<(Arc<str>, i64)>,
}

impl ReadBoard {
    /// At most [`BOARD_MAX`] rows from a rank on, counted from 0.
    pub fn top(place: Place, realm: RealmId, asset: Arc<str>, from: usize, limit: usize) -> ReadBoard {
        ReadBoard { place, realm, asset, owner: "".into(), from, limit: limit.clamp(1, BOARD_MAX) }
    }

    /// At most [`BOARD_MAX`] rows, so many of them above the owner as there are below.
    pub fn around(place: Place, realm: RealmId, asset: Arc<str>, owner: Arc<str>, limit: usize) -> ReadBoard {
        let limit = limit.clamp(1, BOARD_MAX);
        ReadBoard { place, realm, asset, owner, from: limit / 2, limit }
    }
}

impl Operation for ReadBoard {
    type Answer = Ranked;

    const SCRIPT: Script = Script::long("realm/board");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.realm.as_str()
    }

    fn apply(&self, state: &mut State, _now: Micros) -> Result<Ranked, Full> {
        let first = if self.owner.is_empty() { number(self.from) + 1 } else { 1 };
        let none = Ranked { total: 0, rank: None, first, rows: Vec::new() };
        let Some(board) = state.realms.board(&self.place, &self.realm, &self.asset) else { return Ok(none) };
        let total = number(board.len());
        let (mut rank, mut from) = (None, self.from);
        if !self.owner.is_empty() {
            let account = Account { asset: Arc::clone(&self.asset), owner: Arc::clone(&self.owner) };
            rank = board.rank(&self.owner, &state.realms.cell(&self.place, &self.realm, &account));
            let Some(rank) = rank else { return Ok(Ranked { total, ..none }) };
            from = rank.saturating_sub(self.from);
        }
        let rows = board.from(from).take(self.limit).map(|row| (Arc::clone(&row.owner), row.value)).collect();
        Ok(Ranked { total, rank: rank.map(|rank| number(rank) + 1), first: number(from) + 1, rows })
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::realm(&self.place, &self.realm, "cells"));
        put_code(&mut call.given, &self.asset);
        put_short(&mut call.given, self.owner.as_bytes());
        record::put(&mut call.given, [number(self.from).min(crate::int::INT_MAX)]);
        call.given.extend_from_slice(&u32::try_from(self.limit).unwrap_or(0).to_le_bytes());
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn is_kept(&self, _answer: &Ranked) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    /// It is never kept.
    fn reply(&self, _answer: &Ranked) -> Reply {
        Reply::new(Vec::new())
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Ranked, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is no leaderboard"))
    }
}

fn read(mut rest: &[u8]) -> Option<Ranked> {
    let [b'b'] = record::take(&mut rest)? else { return None };
    let (total, rank, first) = (record::take_number(&mut rest)?, record::take_number(&mut rest)?, record::take_number(&mut rest)?);
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let value = take_int(&mut rest)?;
        rows.push((super::entry::take_text(&mut rest)?, value));
    }
    Some(Ranked { total, rank: Some(rank).filter(|rank| *rank > 0), first: first + 1, rows })
}

fn number(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
