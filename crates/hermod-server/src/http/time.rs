//! Times as they are sent: RFC 3339, UTC, milliseconds.

use hermod_core::Micros;
use serde::{Serialize, Serializer};
use utoipa::{PartialSchema, ToSchema};

/// A point in time. Rounded up to the millisecond, so that "ask again at" is never too early.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Micros);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = i64::try_from(self.0.get().div_ceil(1000)).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
        serializer.collect_str(&format_args!("{time:.3}"))
    }
}

impl PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::DateTime)))
            .into()
    }
}

impl ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_the_millisecond() {
        let text = |us| serde_json::to_string(&Time(Micros::saturating(us))).unwrap();
        assert_eq!(text(1_700_000_000_000_000), "\"2023-11-14T22:13:20.000Z\"");
        assert_eq!(text(1_700_000_000_000_001), "\"2023-11-14T22:13:20.001Z\"");
    }
}
