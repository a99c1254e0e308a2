-- Realms. body is the whole definition as JSON and hash the SHA-256 of that text; version grows with every change.
-- seed is what draws are made of, in hex: it stays as long as the realm does, and is shown to nobody.
-- retired is a JSON list of plays that there were: what they minted and burnt is part of the supply.
CREATE TABLE realms (
    space VARBINARY(64) NOT NULL,
    id VARBINARY(64) NOT NULL,
    body MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    version BIGINT NOT NULL,
    hash VARBINARY(64) NOT NULL,
    seed VARBINARY(64) NOT NULL,
    retired MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (space, id),
    CONSTRAINT realms_space FOREIGN KEY (space) REFERENCES spaces (space)
) ENGINE = InnoDB;

-- The realm that a change is about, if it is about one.
ALTER TABLE changes ADD COLUMN realm VARBINARY(64);
