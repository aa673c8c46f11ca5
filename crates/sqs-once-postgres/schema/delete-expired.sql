-- Deletes up to 1000 rows that expired a day ago or earlier: again and again until it deletes none, by a scheduler such
-- as pg_cron. Small batches, so that no lock is held for long. Rows that somebody is writing are left for the next time.
--
-- The day is for clocks that differ: whether a duplicate is recognised is decided by the functions' clocks, whether a row
-- is deleted by the server's. A row whose lease is alive stays whatever its expiration says, so that its owner can
-- complete it; one of unknown status was not written by sqs-once, and stays as well.
DELETE FROM processed_events
WHERE id = ANY (ARRAY(
    SELECT id
    FROM processed_events
    WHERE expiration_day < extract(epoch FROM now())::bigint / 86400
        AND expiration < extract(epoch FROM now())::bigint - 86400
        AND (
            status = 'COMPLETED'
            OR status = 'INPROGRESS'
            AND coalesce(in_progress_expiration, 0) < (extract(epoch FROM now())::bigint - 86400) * 1000
        )
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
));
