-- Decks and their messages. body is the whole definition as JSON; the other columns are copies to search by, and counts.
-- next_ordinal, named and tombstones tell how many messages there were, how many name their subjects, and how many were
-- deleted; so how many are for others follows from them.
CREATE TABLE decks (
    space VARBINARY(64) NOT NULL,
    id VARBINARY(64) NOT NULL,
    body MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    next_ordinal BIGINT NOT NULL,
    named BIGINT NOT NULL,
    tombstones BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, id),
    CONSTRAINT decks_space FOREIGN KEY (space) REFERENCES spaces (space)
) ENGINE = InnoDB;

-- named is 1 where the message is for subjects that it names, of which there may be millions.
CREATE TABLE messages (
    space VARBINARY(64) NOT NULL,
    deck VARBINARY(64) NOT NULL,
    id VARBINARY(64) NOT NULL,
    ordinal BIGINT NOT NULL,
    named BIGINT NOT NULL,
    body MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, deck, id),
    -- named comes first, so that this one index also finds what every server keeps in memory, of all decks.
    INDEX messages_by_ordinal (named, space, deck, ordinal),
    CONSTRAINT messages_deck FOREIGN KEY (space, deck) REFERENCES decks (space, id)
) ENGINE = InnoDB;

-- Who is named by which message.
CREATE TABLE message_subjects (
    space VARBINARY(64) NOT NULL,
    deck VARBINARY(64) NOT NULL,
    subject VARBINARY(256) NOT NULL,
    ordinal BIGINT NOT NULL,
    id VARBINARY(64) NOT NULL,
    PRIMARY KEY (space, deck, subject, ordinal),
    INDEX message_subjects_by_ordinal (space, deck, ordinal)
) ENGINE = InnoDB;

-- The ordinals of deleted messages: none is used again, and histories drop them when they meet them.
CREATE TABLE message_tombstones (
    space VARBINARY(64) NOT NULL,
    deck VARBINARY(64) NOT NULL,
    ordinal BIGINT NOT NULL,
    PRIMARY KEY (space, deck, ordinal)
) ENGINE = InnoDB;

-- The deck that a change is about, if it is about one, and the message if it is about one that names nobody.
ALTER TABLE changes ADD COLUMN deck VARBINARY(64);
ALTER TABLE changes ADD COLUMN ordinal BIGINT;
