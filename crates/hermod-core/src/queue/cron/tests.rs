//! Changes of clocks, the calendar, and what people mistype.

use super::*;

fn micros(text: &str) -> Micros {
    Micros::new(u64::try_from(text.parse::<Timestamp>().unwrap().as_microsecond()).unwrap()).unwrap()
}

fn text(at: Micros) -> String {
    Timestamp::from_microsecond(i64::try_from(at.get()).unwrap()).unwrap().to_string()
}

fn runs(expression: &str, zone: &str, dst: Dst, after: &str, count: usize) -> Vec<String> {
    Cron::new(expression, zone, dst).unwrap().runs_after(micros(after)).take(count).map(text).collect()
}

#[test]
fn clocks_that_go_forward_shift_or_skip_what_they_leave_out() {
    // In Berlin 02:00 became 03:00 on 29 March 2026, at 01:00 UTC.
    let berlin = |dst| runs("30 2 * * *", "Europe/Berlin", dst, "2026-03-28T00:00:00Z", 3);
    assert_eq!(berlin(Dst::Shift), ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    assert_eq!(berlin(Dst::Skip), ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]);
    // Several times of one gap are one run, and 03:00 itself no second one.
    let several = runs("0,15,30 2,3 * * *", "Europe/Berlin", Dst::Shift, "2026-03-29T00:59:59Z", 3);
    assert_eq!(several, ["2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z"]);
    // In New York on 8 March 2026, at 07:00 UTC.
    let york = runs("30 2 * * *", "America/New_York", Dst::Shift, "2026-03-08T00:00:00Z", 2);
    assert_eq!(york, ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]);
    // Samoa left out a whole day, 30 December 2011.
    let samoa = runs("0 12 * * *", "Pacific/Apia", Dst::Skip, "2011-12-29T00:00:00Z", 3);
    assert_eq!(samoa, ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"]);
    let samoa = runs("0 12 * * *", "Pacific/Apia", Dst::Shift, "2011-12-29T23:00:00Z", 2);
    assert_eq!(samoa, ["2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]);
}

#[test]
fn what_comes_twice_when_clocks_go_back_runs_once_at_the_first() {
    // In Berlin 03:00 became 02:00 on 25 October 2026, at 01:00 UTC.
    for after in ["2026-10-25T00:00:00Z", "2026-10-25T00:29:59.999999Z"] {
        let berlin = runs("30 2 * * *", "Europe/Berlin", Dst::Shift, after, 2);
        assert_eq!(berlin, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"], "{after}");
    }
    // From within the second pass the time is over.
    for after in ["2026-10-25T00:30:00Z", "2026-10-25T01:10:00Z", "2026-10-25T01:45:00Z"] {
        assert_eq!(runs("30 2 * * *", "Europe/Berlin", Dst::Skip, after, 1), ["2026-10-26T01:30:00Z"], "{after}");
    }
    let york = runs("30 1 * * *", "America/New_York", Dst::Shift, "2026-11-01T00:00:00Z", 2);
    assert_eq!(york, ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
}

#[test]
fn what_recurs_in_real_time_runs_on_through_both_changes() {
    for (after, first) in [("2026-10-24T22:00:00Z", "2026-10-24T22:30:00Z"), ("2026-03-28T22:00:00Z", "2026-03-28T22:30:00Z")] {
        let cron = Cron::new("*/30 * * * *", "Europe/Berlin", Dst::Shift).unwrap();
        let runs: Vec<_> = cron.runs_after(micros(after)).take(20).collect();
        assert_eq!(text(runs[0]), first);
        assert!(runs.windows(2).all(|pair| pair[1].since(pair[0]).get() == 1_800_000_000), "{after}");
    }
    let hourly = runs("@hourly", "Europe/Berlin", Dst::Skip, "2026-10-25T00:10:00Z", 3);
    assert_eq!(hourly, ["2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"]);
}

#[test]
fn the_calendar_is_kept() {
    let leap = runs("0 0 29 2 *", "UTC", Dst::Shift, "2096-03-01T00:00:00Z", 2);
    assert_eq!(leap, ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"], "2100 has none");
    assert_eq!(runs("0 9 * * MON-FRI", "UTC", Dst::Shift, "2026-11-13T09:00:00Z", 1), ["2026-11-16T09:00:00Z"]);
    assert_eq!(runs("0 0 L * *", "UTC", Dst::Shift, "2026-02-01T00:00:00Z", 1), ["2026-02-28T00:00:00Z"]);
    assert_eq!(runs("0 0 * * FRI#1", "UTC", Dst::Shift, "2026-11-07T00:00:00Z", 1), ["2026-12-04T00:00:00Z"]);
    assert_eq!(runs("*/10 * * * * *", "UTC", Dst::Shift, "2026-01-01T00:00:05Z", 1), ["2026-01-01T00:00:10Z"]);
    assert_eq!(runs("@daily", "Asia/Kolkata", Dst::Shift, "2026-01-01T00:00:00Z", 1), ["2026-01-01T18:30:00Z"]);
    assert_eq!(runs("@weekly", "UTC", Dst::Shift, "2026-01-01T00:00:00Z", 1), ["2026-01-04T00:00:00Z"]);
    assert_eq!(runs("0 0 1 1 *", "UTC", Dst::Shift, "1970-01-01T00:00:00Z", 1), ["1971-01-01T00:00:00Z"], "strictly after");
    assert_eq!("0 0 1 1 *".parse::<Cron>().unwrap().next_after(Micros::MAX), None);
}

#[test]
fn nothing_drifts_in_a_year_of_runs() {
    let cron = Cron::new("30 2 * * *", "Europe/Berlin", Dst::Shift).unwrap();
    let from = micros("2026-01-01T00:00:00Z");
    let runs: Vec<Micros> = cron.runs_after(from).take(365).collect();
    assert_eq!(text(runs[364]), "2026-12-31T01:30:00Z");
    // Whoever asks late, in the middle of nowhere, is told the same.
    for pair in runs.windows(2) {
        let late = pair[0].plus(Micros::saturating(pair[1].since(pair[0]).get() * 617 / 1_000));
        assert_eq!(cron.next_after(late), Some(pair[1]));
    }
}

#[test]
fn a_bad_expression_is_told_with_its_place() {
    for (bad, told) in [
        ("0 25 * * *", "at character 3: the hours \"25\" must be of 0-23"),
        ("61 * * * *", "at character 1: the minutes"),
        ("0  0   32 * *", "at character 8: the days of the month \"32\""),
        ("0 0 0 * FOO 1", "at character 9: the months \"FOO\""),
        ("70 0 0 * * *", "at character 1: the seconds \"70\""),
        ("0 0 * * 8", "the days of the week \"8\""),
        ("*/0 * * * *", "the minutes \"*/0\""),
        (",, * * * *", "at character 1: the minutes \",,\""),
        ("0 0 , * ,", "at character 5: the days of the month \",\""),
        ("1,,2 * * * *", "the minutes"),
        ("5-1 * * * *", "the minutes \"5-1\""),
        ("* * * *", "it has 4"),
        ("0 0 0 1 1 * 2026", "it has 7"),
        ("", "it has 0"),
        ("@reboot", "must be one of @yearly"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 4,6,9,11 *", "never comes"),
        ("ä * * * *", "ASCII"),
    ] {
        let fault = Cron::new(bad, "UTC", Dst::Shift).unwrap_err();
        assert_eq!(fault.field, "cron", "{bad}");
        assert!(fault.reason.contains(told), "{bad}: {}", fault.reason);
    }
    for zone in ["", "Mars/Olympus", "+02:00", "Europe/Berlin "] {
        assert_eq!(Cron::new("@daily", zone, Dst::Shift).unwrap_err().field, "zone", "{zone}");
    }
}

#[test]
fn whatever_is_typed_is_read_or_refused() {
    let pieces = ["*", "0", "5", "12", "29", "31", "60", "7", "/", "-", ",", "#", "L", "W", "?", "+", "@", "SUN", "FEB", "X", " ", ""];
    let seed = crate::Seed::new(17);
    for round in 0..3_000 {
        let piece = |index| pieces[usize::try_from(seed.child(round).child(index).below(22)).unwrap()];
        let field = |at| [piece(at), if piece(at + 1).len() == 1 { "" } else { piece(at + 2) }, piece(at + 3)].concat();
        let expression = [0, 10, 20, 30, 40].map(|at| if piece(at + 5) < "5" { String::from("*") } else { field(at) }).join(" ");
        if let Ok(cron) = expression.parse::<Cron>() {
            let next = cron.next_after(micros("2026-01-01T00:00:00Z"));
            assert!(next.is_some(), "{expression:?}");
        }
    }
}
