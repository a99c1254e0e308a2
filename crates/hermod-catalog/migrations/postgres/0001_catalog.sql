-- The first shape of the catalog. The collation "C" orders text byte by byte, whatever the database's own is.
-- Times are microseconds since the Unix epoch.

-- One row. Every write increments it first: the row's lock puts all writes of all servers in one order.
CREATE TABLE catalog_version (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL
);
INSERT INTO catalog_version (id, version) VALUES (1, 0);

-- subject_rules counts the space's rules that have a subject, so that nobody must.
CREATE TABLE spaces (
    space TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    subject_rules BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL
);
INSERT INTO spaces (space, created_at) VALUES ('default', extract(epoch FROM now())::BIGINT * 1000000);

-- body is the whole rule as JSON; the other columns are copies to search by.
CREATE TABLE rules (
    space TEXT COLLATE "C" NOT NULL REFERENCES spaces (space),
    id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C",
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, id)
);
-- The subject comes first, so that this one index also finds everyone's rules among millions with a subject.
CREATE INDEX rules_by_subject ON rules (subject, space, action, name);

CREATE TABLE api_keys (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    space TEXT COLLATE "C" NOT NULL REFERENCES spaces (space),
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX api_keys_by_space ON api_keys (space, id);

-- What each version changed. subject_rules is the space's count after the change.
CREATE TABLE changes (
    version BIGINT NOT NULL,
    part BIGINT NOT NULL,
    space TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT,
    subject_rules BIGINT NOT NULL,
    PRIMARY KEY (version, part)
);

-- Answers of writes that came with an idempotency key. The space is empty for keys above all spaces.
CREATE TABLE idempotency (
    space TEXT COLLATE "C" NOT NULL,
    once_key TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT NOT NULL,
    answer TEXT NOT NULL,
    kept_until BIGINT NOT NULL,
    PRIMARY KEY (space, once_key)
);
CREATE INDEX idempotency_by_end ON idempotency (kept_until);
