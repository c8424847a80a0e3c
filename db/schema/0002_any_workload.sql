-- Points of any kind that the program names: which there are is model/measurement.h's to say, so
-- that a further kind needs no step. The table of points is made anew, row by row; no column
-- changes.
DROP VIEW v_point_time;

CREATE TABLE point_next (
  id               INTEGER PRIMARY KEY,
  run_id           INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
  workload         TEXT NOT NULL CHECK (workload <> ''),
  model            INTEGER NOT NULL REFERENCES word,
  regime           INTEGER NOT NULL REFERENCES word,
  split            INTEGER NOT NULL REFERENCES word,
  strategy         INTEGER NOT NULL REFERENCES word,
  dtype            INTEGER NOT NULL REFERENCES word,
  backend          INTEGER NOT NULL REFERENCES word,
  cache_state      INTEGER NOT NULL REFERENCES word,
  launch           INTEGER NOT NULL REFERENCES word,
  context_len      INTEGER NOT NULL,
  num_queries      INTEGER NOT NULL,
  overlap          REAL,               -- declared overlap of synthetic queries
  status           TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed')),
  reason           TEXT NOT NULL,      -- one sentence when status is not ok
  stop_reason      INTEGER NOT NULL REFERENCES word,
  reliability      INTEGER NOT NULL REFERENCES word,
  adjacent_overlap REAL,               -- measured overlap of neighbouring queries' selections
  unique_blocks    REAL,
  -- Derived from the rows below when the point is stored, so that an overview reads one table.
  sample_count     INTEGER NOT NULL,
  median_ns        REAL,
  median_low_ns    REAL,
  median_high_ns   REAL,
  dram_bytes       REAL,
  predicted_bytes  REAL,
  accepted         REAL
) STRICT;
INSERT INTO point_next SELECT * FROM point;
DROP TABLE point;
ALTER TABLE point_next RENAME TO point;
-- A run holds a key once; NULL is a value of the overlap here.
CREATE UNIQUE INDEX point_key ON point (run_id, strategy, context_len, num_queries, model, regime,
  split, workload, dtype, backend, cache_state, launch, ifnull(overlap, -1e300));
CREATE INDEX point_by_model ON point (model);
CREATE INDEX point_by_context ON point (context_len, num_queries);

-- For people with a SQL prompt: points with their words, one row a point.
CREATE VIEW v_point_time AS
SELECT p.id, run.uuid AS run, device.name AS device, p.workload, model.text AS model,
       regime.text AS regime, split.text AS split, strategy.text AS strategy, dtype.text AS dtype,
       backend.text AS backend, cache.text AS cache_state, launch.text AS launch, p.context_len,
       p.num_queries, p.overlap, p.status, p.reason, reliability.text AS reliability,
       p.adjacent_overlap, p.unique_blocks, p.sample_count, p.median_ns, p.median_low_ns,
       p.median_high_ns, p.dram_bytes, p.predicted_bytes, p.accepted
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
  JOIN word reliability ON reliability.id = p.reliability;
