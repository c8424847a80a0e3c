-- The temperature that an acceptance point's texts were sampled at; 0: the largest logit decides, as
-- in all points before.
ALTER TABLE point ADD COLUMN temperature REAL NOT NULL DEFAULT 0
  CHECK (temperature >= 0);

-- One tuple at two temperatures is two points.
DROP INDEX point_key;
CREATE UNIQUE INDEX point_key ON point (run_id, strategy, context_len, num_queries, model, regime,
  split, workload, dtype, backend, cache_state, launch, ifnull(overlap, -1e300), pair, temperature);

-- For people with a SQL prompt: points with their words, one row a point.
DROP VIEW v_point_time;
CREATE VIEW v_point_time AS
SELECT p.id, run.uuid AS run, device.name AS device, p.workload, model.text AS model,
       regime.text AS regime, split.text AS split, strategy.text AS strategy, dtype.text AS dtype,
       backend.text AS backend, cache.text AS cache_state, launch.text AS launch, p.context_len,
       p.num_queries, p.overlap, p.status, p.reason, reliability.text AS reliability,
       p.adjacent_overlap, p.unique_blocks, p.sample_count, p.median_ns, p.median_low_ns,
       p.median_high_ns, p.dram_bytes, p.predicted_bytes, p.accepted, pair.text AS pair_sha256,
       p.temperature
FROM point p
  JOIN run ON run.id = p.run_id
  JOIN device ON device.id = run.device_id
  JOIN word model ON model.id = p.model
  JOIN word regime ON regime.id = p.regime
  JOIN word split ON split.id = p.split
  JOIN word strategy ON strategy.id = p.strategy
  JOIN word dtype ON dtype.id = p.dtype
  JOIN word backend ON backend.id = p.backend
  JOIN word cache ON cache.id = p.cache_state
  JOIN word launch ON launch.id = p.launch
  JOIN word pair ON pair.id = p.pair
  JOIN word reliability ON reliability.id = p.reliability;
