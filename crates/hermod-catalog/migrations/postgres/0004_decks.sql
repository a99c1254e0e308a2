-- Decks and their messages. body is the whole definition as JSON; the other columns are copies to search by, and counts.
-- next_ordinal, named and tombstones tell how many messages there were, how many name their subjects, and how many were
-- deleted; so how many are for others follows from them.
CREATE TABLE decks (
    space TEXT COLLATE "C" NOT NULL REFERENCES spaces (space),
    id TEXT COLLATE "C" NOT NULL,
    body TEXT NOT NULL,
    next_ordinal BIGINT NOT NULL,
    named BIGINT NOT NULL,
    tombstones BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, id)
);

-- named is 1 where the message is for subjects that it names, of which there may be millions.
CREATE TABLE messages (
    space TEXT COLLATE "C" NOT NULL,
    deck TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    ordinal BIGINT NOT NULL,
    named BIGINT NOT NULL,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, deck, id),
    FOREIGN KEY (space, deck) REFERENCES decks (space, id)
);
-- named comes first, so that this one index also finds what every server keeps in memory, of all decks.
CREATE INDEX messages_by_ordinal ON messages (named, space, deck, ordinal);

-- Who is named by which message.
CREATE TABLE message_subjects (
    space TEXT COLLATE "C" NOT NULL,
    deck TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    ordinal BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (space, deck, subject, ordinal)
);
CREATE INDEX message_subjects_by_ordinal ON message_subjects (space, deck, ordinal);

-- The ordinals of deleted messages: none is used again, and histories drop them when they meet them.
CREATE TABLE message_tombstones (
    space TEXT COLLATE "C" NOT NULL,
    deck TEXT COLLATE "C" NOT NULL,
    ordinal BIGINT NOT NULL,
    PRIMARY KEY (space, deck, ordinal)
);

-- The deck that a change is about, if it is about one, and the message if it is about one that names nobody.
ALTER TABLE changes ADD COLUMN deck TEXT;
ALTER TABLE changes ADD COLUMN ordinal BIGINT;
