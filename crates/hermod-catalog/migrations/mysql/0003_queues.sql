-- Queues, and the deliveries that recur in them. body is the whole definition as JSON, secrets included.
CREATE TABLE queues (
    space VARBINARY(64) NOT NULL,
    id VARBINARY(64) NOT NULL,
    body MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, id),
    CONSTRAINT queues_space FOREIGN KEY (space) REFERENCES spaces (space)
) ENGINE = InnoDB;

CREATE TABLE schedules (
    space VARBINARY(64) NOT NULL,
    queue VARBINARY(64) NOT NULL,
    name VARBINARY(64) NOT NULL,
    body MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, queue, name),
    CONSTRAINT schedules_queue FOREIGN KEY (space, queue) REFERENCES queues (space, id)
) ENGINE = InnoDB;
