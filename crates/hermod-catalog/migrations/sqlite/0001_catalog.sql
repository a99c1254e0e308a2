-- The first shape of the catalog. SQLite compares text byte by byte, so no collation is named.
-- Times are microseconds since the Unix epoch.

-- One row. Every write increments it first: the row's lock puts all writes of all servers in one order.
CREATE TABLE catalog_version (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO catalog_version (id, version) VALUES (1, 0);

-- subject_rules counts the space's rules that have a subject, so that nobody must.
CREATE TABLE spaces (
    space TEXT NOT NULL PRIMARY KEY,
    subject_rules INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;
INSERT INTO spaces (space, created_at) VALUES ('default', CAST(strftime('%s', 'now') AS INTEGER) * 1000000);

-- body is the whole rule as JSON; the other columns are copies to search by.
CREATE TABLE rules (
    space TEXT NOT NULL REFERENCES spaces (space),
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT,
    body TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (space, id)
) STRICT;
-- The subject comes first, so that this one index also finds everyone's rules among millions with a subject.
CREATE INDEX rules_by_subject ON rules (subject, space, action, name);

CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    space TEXT NOT NULL REFERENCES spaces (space),
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX api_keys_by_space ON api_keys (space, id);

-- What each version changed. subject_rules is the space's count after the change.
CREATE TABLE changes (
    version INTEGER NOT NULL,
    part INTEGER NOT NULL,
    space TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT,
    subject_rules INTEGER NOT NULL,
    PRIMARY KEY (version, part)
) STRICT;

-- Answers of writes that came with an idempotency key. The space is empty for keys above all spaces.
CREATE TABLE idempotency (
    space TEXT NOT NULL,
    once_key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    answer TEXT NOT NULL,
    kept_until INTEGER NOT NULL,
    PRIMARY KEY (space, once_key)
) STRICT;
CREATE INDEX idempotency_by_end ON idempotency (kept_until);
