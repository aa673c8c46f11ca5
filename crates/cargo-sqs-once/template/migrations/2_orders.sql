-- The function's own tables. Its role needs SELECT, INSERT and UPDATE on them, and on processed_events.
CREATE TABLE orders (
    order_id    text PRIMARY KEY,
    customer_id text NOT NULL,
    article     text NOT NULL,
    pieces      bigint NOT NULL CHECK (pieces > 0)
);

-- The number of reserved pieces of each article.
CREATE TABLE stock (
    article  text PRIMARY KEY,
    reserved bigint NOT NULL
);
