-- Deletes up to 1000 rows that expired at least a day ago. A scheduler such as pg_cron repeats it until none is left.
-- Small batches keep locks short. Rows that another transaction is writing stay until a later run.
--
-- The extra day allows for clock differences: the functions' clocks decide whether a message is a duplicate, and the
-- server's clock decides whether a row is deleted. A row with a live lease stays even if it has expired, so that its
-- owner can complete it. A row with an unknown status stays too, since sqs-once did not write it.
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
