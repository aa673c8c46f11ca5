-- sqs-once on PostgreSQL, schema version 1: one row for each business key. Requires PostgreSQL 13; tested with 18.
--
-- Apply it once, in the schema that the store uses:
--
--     psql "$DATABASE_URL" --single-transaction -f v1.sql
--
-- The function's role needs SELECT, INSERT and UPDATE on the table. The scheduler that deletes expired rows needs
-- SELECT, UPDATE (for row locks) and DELETE.
--
-- Each row is written twice in short succession: claimed, then completed. The layout keeps the second write cheap.
-- PostgreSQL stores the new version on the same page and updates no index (a HOT update), if no indexed column changes
-- and the page has free space.
--
-- * No indexed column changes. `expiration` moves by the handler's duration, so only its day is indexed, which normally
--   stays the same.
-- * The page has free space. `fillfactor = 50` reserves half of it for second versions, even if one statement claims a
--   whole batch and another completes it. With 100, second versions would need other pages and new index entries.
-- * Expired rows are deleted by the thousand. By default, autovacuum waits until a fifth of a table is dead. That would
--   take a week for a table that holds four weeks, so this table sets a lower threshold.
--
-- The constraint's name contains the version, and every claim names it. A store therefore never writes to a table of
-- another version.
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
    'namespace, `#`, and the hexadecimal SHA-256 of the business key, or the readable key itself';
COMMENT ON COLUMN processed_events.status IS
    'INPROGRESS or COMPLETED';
COMMENT ON COLUMN processed_events.in_progress_expiration IS
    'the end of the lease, in milliseconds since the epoch';
COMMENT ON COLUMN processed_events.expiration IS
    'until when duplicates are recognised, in seconds since the epoch; later, the row may be deleted';
COMMENT ON COLUMN processed_events.validation IS
    'the fingerprint of the payload, unless fingerprints are disabled';
COMMENT ON COLUMN processed_events.data IS
    'the completion''s value, in UTF-8: convert_from(data, ''UTF8''). The type text can''t hold NUL characters';
COMMENT ON COLUMN processed_events.owner IS
    'the attempt that claimed or completed the key: 128 random bits in hexadecimal digits, new for every attempt';
COMMENT ON COLUMN processed_events.fence IS
    'grows with every claim of the key, from the time of the first claim in milliseconds since the epoch';
COMMENT ON COLUMN processed_events.expiration_day IS
    'the day on which the row expires, in days since the epoch';
