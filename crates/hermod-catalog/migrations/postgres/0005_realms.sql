-- Realms. body is the whole definition as JSON and hash the SHA-256 of that text; version grows with every change.
-- seed is what draws are made of, in hex: it stays as long as the realm does, and is shown to nobody.
-- retired is a JSON list of plays that there were: what they minted and burnt is part of the supply.
CREATE TABLE realms (
    space TEXT COLLATE "C" NOT NULL REFERENCES spaces (space),
    id TEXT COLLATE "C" NOT NULL,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    hash TEXT NOT NULL,
    seed TEXT NOT NULL,
    retired TEXT NOT NULL,
    PRIMARY KEY (space, id)
);

-- The realm that a change is about, if it is about one.
ALTER TABLE changes ADD COLUMN realm TEXT;
