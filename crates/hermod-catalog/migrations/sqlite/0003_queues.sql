-- Queues, and the deliveries that recur in them. body is the whole definition as JSON, secrets included.
CREATE TABLE queues (
    space TEXT NOT NULL REFERENCES spaces (space),
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (space, id)
) STRICT;

CREATE TABLE schedules (
    space TEXT NOT NULL,
    queue TEXT NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (space, queue, name),
    FOREIGN KEY (space, queue) REFERENCES queues (space, id)
) STRICT;
