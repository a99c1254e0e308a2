-- The first shape of the catalog. What is compared is VARBINARY: MySQL's text collations ignore case,
-- trailing spaces, or both. Times are microseconds since the Unix epoch.

-- One row. Every write increments it first: the row's lock puts all writes of all servers in one order.
CREATE TABLE catalog_version (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT INTO catalog_version (id, version) VALUES (1, 0);

-- subject_rules counts the space's rules that have a subject, so that nobody must.
CREATE TABLE spaces (
    space VARBINARY(64) NOT NULL PRIMARY KEY,
    subject_rules BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT INTO spaces (space, created_at) VALUES ('default', UNIX_TIMESTAMP() * 1000000);

-- body is the whole rule as JSON; the other columns are copies to search by.
CREATE TABLE rules (
    space VARBINARY(64) NOT NULL,
    id VARBINARY(64) NOT NULL,
    name VARBINARY(64) NOT NULL,
    action VARBINARY(256) NOT NULL,
    subject VARBINARY(256),
    body MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, id),
    -- The subject comes first, so that this one index also finds everyone's rules among millions with a subject.
    INDEX rules_by_subject (subject, space, action, name),
    CONSTRAINT rules_space FOREIGN KEY (space) REFERENCES spaces (space)
) ENGINE = InnoDB;

CREATE TABLE api_keys (
    id VARBINARY(64) NOT NULL PRIMARY KEY,
    space VARBINARY(64) NOT NULL,
    name VARBINARY(256) NOT NULL,
    scopes VARBINARY(1024) NOT NULL,
    secret_hash VARBINARY(64) NOT NULL,
    created_at BIGINT NOT NULL,
    INDEX api_keys_by_space (space, id),
    CONSTRAINT api_keys_space FOREIGN KEY (space) REFERENCES spaces (space)
) ENGINE = InnoDB;

-- What each version changed. subject_rules is the space's count after the change.
CREATE TABLE changes (
    version BIGINT NOT NULL,
    part BIGINT NOT NULL,
    space VARBINARY(64) NOT NULL,
    kind VARBINARY(16) NOT NULL,
    subject VARBINARY(256),
    subject_rules BIGINT NOT NULL,
    PRIMARY KEY (version, part)
) ENGINE = InnoDB;

-- Answers of writes that came with an idempotency key. The space is empty for keys above all spaces.
CREATE TABLE idempotency (
    space VARBINARY(64) NOT NULL,
    once_key VARBINARY(128) NOT NULL,
    fingerprint VARBINARY(32) NOT NULL,
    answer MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    kept_until BIGINT NOT NULL,
    PRIMARY KEY (space, once_key),
    INDEX idempotency_by_end (kept_until)
) ENGINE = InnoDB;
