-- What each minute brought.
CREATE MATERIALIZED VIEW orders_per_minute AS
SELECT date_trunc('minute', timestamp) AS minute, count(*) AS orders, round(sum(amount), 2) AS amount
FROM orders
GROUP BY ALL;
