-- Queues, and the deliveries that recur in them. body is the whole definition as JSON, secrets included.
CREATE TABLE queues (
    space TEXT COLLATE "C" NOT NULL REFERENCES spaces (space),
    id TEXT COLLATE "C" NOT NULL,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, id)
);

CREATE TABLE schedules (
    space TEXT COLLATE "C" NOT NULL,
    queue TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, queue, name),
    FOREIGN KEY (space, queue) REFERENCES queues (space, id)
);
