-- sqs-once on PostgreSQL, schema version 1: one row a business key. Needs what PostgreSQL 13 has; tested with 18.
--
-- Apply it once, in the schema that the store uses:
--
--     psql "$DATABASE_URL" --single-transaction -f v1.sql
--
-- The function's role needs SELECT, INSERT and UPDATE on the table, the scheduler that deletes expired rows SELECT,
-- UPDATE (it locks what it deletes) and DELETE.
--
-- A row is written twice soon after each other: claimed, then completed. What follows keeps the second write cheap:
-- PostgreSQL puts the new version beside the old one and touches no index (a HOT update) as long as no indexed column
-- changes and the page has room.
--
-- * No indexed column changes: `expiration` moves by the seconds that the handler took, so it is not indexed itself;
--   the day it falls on is, which stays the same.
-- * The page has room: `fillfactor = 50` keeps half of it for the second versions, even if a whole batch that was claimed
--   in one statement is completed in one. With 100, second versions would go into other pages, and into the indexes once
--   more.
-- * Rows leave by the thousand once they expire. Autovacuum waits for a fifth of a table to be dead before it makes room
--   for others; of a table that holds four weeks that is a week, so here it does not wait as long.
--
-- The constraint's name is the version: every claim names it, so that a store never writes to a table of another version.
CREATE TABLE processed_events (
    id                     text COLLATE "C" NOT NULL,
    status                 text COLLATE "C" NOT NULL,
    in_progress_expiration bigint,
    expiration             bigint,
    validation             text COLLATE "C",
    data                   bytea,
    owner                  text COLLATE "C",
    fence                  bigint,
    expiration_day         bigint GENERATED ALWAYS AS (expiration / 86400) STORED,
    CONSTRAINT processed_events_v1 PRIMARY KEY (id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02
);

-- For deleting expired rows.
CREATE INDEX processed_events_expiration_day ON processed_events (expiration_day);

COMMENT ON TABLE processed_events IS
    'sqs-once, schema version 1: which business events were processed, or are being processed';
COMMENT ON COLUMN processed_events.id IS
    'namespace, `#`, and the hexadecimal SHA-256 of the business key, or the key itself where keys are readable';
COMMENT ON COLUMN processed_events.status IS
    'INPROGRESS or COMPLETED, nothing else';
COMMENT ON COLUMN processed_events.in_progress_expiration IS
    'the lease: until when its owner may be working, in milliseconds since the epoch';
COMMENT ON COLUMN processed_events.expiration IS
    'until when a duplicate is recognised, in seconds since the epoch; the row may be deleted later';
COMMENT ON COLUMN processed_events.validation IS
    'the fingerprint of the payload, where it is checked';
COMMENT ON COLUMN processed_events.data IS
    'what the handler asked to record, in UTF-8: convert_from(data, ''UTF8''). Not text, which can''t hold every text';
COMMENT ON COLUMN processed_events.owner IS
    'whose claim or completion this is: 128 random bits in hexadecimal digits, fresh for every attempt';
COMMENT ON COLUMN processed_events.fence IS
    'grows with every claim of the key; the first one is the time of the claim in milliseconds since the epoch';
COMMENT ON COLUMN processed_events.expiration_day IS
    'the day on which the row expires, in days since the epoch';
