//! What an answer means.

use std::time::{Duration, SystemTime};

use hermod_core::Micros;
use hyper::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::Sent;

/// The longest wait that a receiver may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// Reads status and headers. `now` is when the answer came.
pub(super) fn read<B>(answer: &Response<B>, now: Micros) -> Sent {
    let status = answer.status();
    if status.is_success() {
        return Sent::Accepted { status: status.as_u16() };
    }
    if status == StatusCode::GONE {
        return Sent::Gone;
    }
    let why = match status.canonical_reason() {
        _ if status.is_redirection() => format!("answered {}; redirects are not followed", status.as_u16()),
        Some(reason) => format!("answered {} {reason}", status.as_u16()),
        None => format!("answered {}", status.as_u16()),
    };
    let waits = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let retry_after = if waits { retry_after(answer.headers(), now) } else { None };
    Sent::Refused { status: Some(status.as_u16()), why, retry_after }
}

/// `Retry-After` in seconds or as a date. A date is compared with the receiver's own clock where it tells its
/// time, so that a clock that is wrong is wrong on both sides.
fn retry_after(headers: &HeaderMap, now: Micros) -> Option<Duration> {
    let text = text(headers, &RETRY_AFTER)?;
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // What does not fit is longer than a day.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let date = |text: &str| httpdate::parse_http_date(text).ok();
        let theirs = self::text(headers, &DATE).and_then(date);
        let base = theirs.or_else(|| SystemTime::UNIX_EPOCH.checked_add(now.to_duration()))?;
        date(text)?.duration_since(base).unwrap_or(Duration::ZERO)
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, headers, and the seconds that are waited.
    type Case = (u16, &'static [(&'static str, &'static str)], Option<u64>);

    /// 2015-10-21 07:28:00 UTC.
    const NOW: Micros = Micros::saturating(1_445_412_480_000_000);

    fn read_with(status: u16, headers: &[(&str, &str)]) -> Sent {
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        read(&answer.body(()).unwrap(), NOW)
    }

    fn waits(status: u16, headers: &[(&str, &str)]) -> Option<u64> {
        let Sent::Refused { retry_after, .. } = read_with(status, headers) else { panic!("{status} is refused") };
        retry_after.map(|wait| wait.as_secs())
    }

    #[test]
    fn a_status_is_taken_or_refused_or_gone() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(read_with(status, &[]), Sent::Accepted { status });
        }
        assert_eq!(read_with(410, &[("retry-after", "5")]), Sent::Gone);
        let cases = [
            (101, "answered 101 Switching Protocols"),
            (301, "answered 301; redirects are not followed"),
            (304, "answered 304; redirects are not followed"),
            (308, "answered 308; redirects are not followed"),
            (400, "answered 400 Bad Request"),
            (404, "answered 404 Not Found"),
            (500, "answered 500 Internal Server Error"),
            (599, "answered 599"),
            (999, "answered 999"),
        ];
        for (status, why) in cases {
            let refused = Sent::Refused { status: Some(status), why: why.to_owned(), retry_after: None };
            assert_eq!(read_with(status, &[("location", "http://elsewhere.example/")]), refused);
        }
    }

    #[test]
    fn retry_after_is_read_in_both_forms_and_bounded() {
        let day = Some(86_400);
        let cases: &[Case] = &[
            (429, &[], None),
            (429, &[("retry-after", "120")], Some(120)),
            (503, &[("retry-after", "0")], Some(0)),
            (500, &[("retry-after", "120")], None),
            (429, &[("retry-after", "86401")], day),
            (429, &[("retry-after", "99999999999999999999999")], day),
            (429, &[("retry-after", "-1")], None),
            (429, &[("retry-after", "1.5")], None),
            (429, &[("retry-after", "soon")], None),
            (429, &[("retry-after", "")], None),
            (503, &[("retry-after", "Wed, 21 Oct 2015 07:29:30 GMT")], Some(90)),
            (429, &[("retry-after", "Wednesday, 21-Oct-15 07:29:30 GMT")], Some(90)),
            (429, &[("retry-after", "Wed, 21 Oct 2015 07:00:00 GMT")], Some(0)),
            (429, &[("retry-after", "Fri, 21 Oct 2016 07:28:00 GMT")], day),
            // Their clock is an hour ahead, and so is what they ask for.
            (429, &[("retry-after", "Wed, 21 Oct 2015 08:29:00 GMT"), ("date", "Wed, 21 Oct 2015 08:28:00 GMT")], Some(60)),
        ];
        for (status, headers, expected) in cases {
            assert_eq!(waits(*status, headers), *expected, "{status} {headers:?}");
        }
    }
}
