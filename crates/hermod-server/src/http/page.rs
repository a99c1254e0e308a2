//! Lists come in pages: `?limit=&cursor=` gives `{items, next}`.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Deserialize;
use utoipa::IntoParams;

use super::sent::bad_query;
use crate::code::{Code, Problem};

/// The longest page; the catalog gives no more either.
pub(super) const PAGE_MAX: u32 = 1000;

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// How many, 1-1000; 100 if absent.
    limit: Option<u32>,
    /// Where the last page ended.
    cursor: Option<String>,
}

impl Page {
    /// How many, and after which one.
    pub(super) fn read(page: Result<Query<Page>, QueryRejection>) -> Result<(u32, Option<String>), Problem> {
        let Query(page) = page.map_err(|rejection| bad_query(&rejection, "limit", "limit (a number) and cursor"))?;
        let limit = page.limit.unwrap_or(100);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Problem::new(Code::InvalidField, format!("limit must be between 1 and {PAGE_MAX}")).in_field("limit"));
        }
        Ok((limit, page.cursor))
    }
}

/// How many to fetch for a page of `limit`. One more than asked for tells whether there is a next page. The longest page cannot
/// be exceeded: if it is full there may be a next one, perhaps empty.
pub(super) fn to_fetch(limit: u32) -> u32 {
    (limit + 1).min(PAGE_MAX)
}

/// Cuts what was fetched to a page of `limit`, and says where the next one begins.
pub(super) fn fetched<T>(items: &mut Vec<T>, limit: u32, id: impl Fn(&T) -> &str) -> Option<String> {
    let size = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let has_more = items.len() == size(to_fetch(limit));
    items.truncate(size(limit));
    items.last().filter(|_| has_more).map(|item| id(item).to_owned())
}

/// Cuts one page out of a list that is in memory as a whole, ordered by `id`, and says where the next one begins.
pub(super) fn cut<T>(mut items: Vec<T>, limit: u32, cursor: Option<&str>, id: impl Fn(&T) -> &str) -> (Vec<T>, Option<String>) {
    if let Some(cursor) = cursor {
        items.drain(..items.partition_point(|item| id(item) <= cursor));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|item| id(item).to_owned());
    (items, next)
}
