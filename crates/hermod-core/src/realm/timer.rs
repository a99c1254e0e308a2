//! When something can be claimed again.

use super::definition::{Timer, Where};
use crate::int::Micros;
use crate::pick::Zone;
use crate::queue::delivery::Due;

/// A timer that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clockwork {
    pub turn: Turn,
    /// How long after it can be claimed again a streak is kept; of a calendar a whole turn if absent.
    pub grace: Option<Micros>,
    pub streak: bool,
}

/// What makes it claimable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// So long after the last claim.
    Every(Micros),
    /// This minute of the day, there; or where its owner is, if it says so and that is known.
    At(u16, Zone, Whose),
}

/// Whose day it is that turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Owner,
    Realm,
}

/// What a claim makes of a timer.
pub(crate) struct Claimed {
    /// When it can be claimed again.
    pub at: Due,
    /// When it is as if it had never been claimed.
    pub until: Due,
    /// When this is true.
    pub window: (Micros, Micros),
}

impl Clockwork {
    pub(crate) fn new(timer: &Timer, zone: &Zone) -> Result<Clockwork, String> {
        let turn = match (&timer.every, &timer.at) {
            (Some(every), None) => Turn::Every(span(every)?),
            (None, Some(at)) => match &timer.tz {
                Some(Where::Owner) => Turn::At(minute(at)?, zone.clone(), Whose::Owner),
                Some(Where::Zone(zone)) => Turn::At(minute(at)?, zone.clone(), Whose::Realm),
                Some(Where::Realm) | None => Turn::At(minute(at)?, zone.clone(), Whose::Realm),
            },
            _ => return Err("needs either every, such as \"24h\", or at, such as \"00:00\"".to_owned()),
        };
        if timer.every.is_some() && timer.tz.is_some() {
            return Err("has a tz, which is for at only".to_owned());
        }
        if timer.grace.is_some() && !timer.streak {
            return Err("has a grace, which is for streak: true only".to_owned());
        }
        let grace = timer.grace.as_deref().map(span).transpose()?;
        Ok(Clockwork { turn, grace, streak: timer.streak })
    }

    /// Whether it turns with the day of its owner.
    pub(crate) fn is_of_owner(&self) -> bool {
        matches!(self.turn, Turn::At(_, _, Whose::Owner))
    }

    /// Claimed now, for `instead` of what it says, by an owner who has this zone.
    pub(crate) fn claim(&self, now: Micros, instead: Option<Micros>, own: Option<&Zone>) -> Claimed {
        let always = (Micros::ZERO, Micros::MAX);
        let rolling = |every: Micros| {
            let grace = if self.streak { self.grace.unwrap_or(every) } else { Micros::ZERO };
            Claimed { at: Due::In(every), until: Due::In(every.plus(grace)), window: always }
        };
        match (&self.turn, instead) {
            (_, Some(every)) => rolling(every),
            (Turn::Every(every), None) => rolling(*every),
            (Turn::At(minute, zone, whose), None) => {
                let zone = own.filter(|_| *whose == Whose::Owner).unwrap_or(zone);
                let [last, next, second] = zone.turns(now, *minute);
                let until = match (self.streak, self.grace) {
                    (false, _) => next,
                    (true, None) => second,
                    (true, Some(grace)) => next.plus(grace),
                };
                Claimed { at: Due::At(next), until: Due::At(until), window: (last, next) }
            }
        }
    }
}

/// A length of time: `24h`, at most about ten years.
pub(crate) fn span(text: &str) -> Result<Micros, String> {
    let span = humantime::parse_duration(text).ok().and_then(Micros::from_duration);
    span.filter(|span| *span > Micros::ZERO && *span <= SPAN_MAX)
        .ok_or_else(|| format!("{text:?} must be a duration such as \"10m\" or \"24h\", of at most 3650 days"))
}

/// The longest span.
pub(crate) const SPAN_MAX: Micros = Micros::saturating(3_650 * 86_400_000_000);

fn minute(text: &str) -> Result<u16, String> {
    let fault = || format!("{text:?} must be a time of the day such as \"00:00\"");
    let (hour, minute) = text.split_once(':').filter(|(hour, minute)| hour.len() == 2 && minute.len() == 2).ok_or_else(fault)?;
    let (hour, minute) = (hour.parse::<u16>().map_err(|_| fault())?, minute.parse::<u16>().map_err(|_| fault())?);
    if hour > 23 || minute > 59 { Err(fault()) } else { Ok(hour * 60 + minute) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000;

    fn hours(n: u64) -> Micros {
        Micros::saturating(n * HOUR)
    }

    #[test]
    fn a_calendar_turns_at_its_hour_also_when_clocks_change() {
        let berlin = Zone::new("Europe/Berlin").unwrap();
        let timer = Timer { at: Some("00:00".into()), streak: true, ..Timer::default() };
        let clockwork = Clockwork::new(&timer, &berlin).unwrap();
        // 2026-03-28 23:30 UTC is 00:30 of the day on which clocks go forward: that day has 23 hours.
        let now = Micros::saturating(1_774_740_600_000_000);
        let claimed = clockwork.claim(now, None, None);
        assert_eq!(claimed.window.0, Micros::saturating(1_774_738_800_000_000));
        assert_eq!(claimed.window.1.since(claimed.window.0), hours(23));
        assert_eq!((claimed.at, claimed.until), (Due::At(claimed.window.1), Due::At(claimed.window.1.plus(hours(24)))));
    }

    #[test]
    fn a_rolling_one_counts_from_the_claim() {
        let timer = Timer { every: Some("24h".into()), streak: true, grace: Some("12h".into()), ..Timer::default() };
        let claimed = Clockwork::new(&timer, &Zone::utc()).unwrap().claim(hours(5), None, None);
        assert_eq!((claimed.at, claimed.until), (Due::In(hours(24)), Due::In(hours(36))));
        for (bad, told) in [
            (Timer::default(), "either every"),
            (Timer { every: Some("0s".into()), ..Timer::default() }, "must be a duration"),
            (Timer { at: Some("24:00".into()), ..Timer::default() }, "time of the day"),
            (Timer { every: Some("1h".into()), grace: Some("1h".into()), ..Timer::default() }, "streak"),
        ] {
            assert!(Clockwork::new(&bad, &Zone::utc()).unwrap_err().contains(told), "{bad:?}");
        }
    }
}
