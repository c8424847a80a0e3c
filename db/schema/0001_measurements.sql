-- Schema 1: runs, points and everything that came back from them.
-- Conventions: times of day are UTC ISO 8601 text; a number's unit ends its name; a number that was
-- not measured is NULL, with a status where the reason varies; enumerations are text with a CHECK.

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE migration (
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  sha256      TEXT NOT NULL,           -- of the script that was run
  applied_utc TEXT NOT NULL
) STRICT;

-- Words that many rows repeat (models, regimes, strategies, ranges ...); 0 is the empty text.
CREATE TABLE word (
  id   INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO word (id, text) VALUES (0, '');

CREATE TABLE environment (
  id   INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE            -- driver, toolkit, clocks, ECC, compiler: JSON
) STRICT;

CREATE TABLE device (
  id        INTEGER PRIMARY KEY,
  name      TEXT NOT NULL,
  uuid_hash TEXT NOT NULL,
  UNIQUE (name, uuid_hash)
) STRICT;

CREATE TABLE run (
  id             INTEGER PRIMARY KEY,
  uuid           TEXT NOT NULL UNIQUE CHECK (uuid <> ''),
  kind           TEXT NOT NULL,
  device_id      INTEGER NOT NULL REFERENCES device,
  environment_id INTEGER NOT NULL REFERENCES environment,
  counter_access TEXT NOT NULL
    CHECK (counter_access IN ('', 'ok', 'denied', 'unsupported', 'busy', 'off')),
  counter_detail TEXT NOT NULL,
  self_check     TEXT NOT NULL CHECK (self_check IN ('', 'ok', 'suspect', 'off')),
  started_utc    TEXT NOT NULL,
  finished_utc   TEXT NOT NULL,        -- empty while running
  status         TEXT NOT NULL CHECK (status IN ('running', 'complete', 'aborted', 'failed')),
  configuration  TEXT NOT NULL,        -- fully resolved, JSON
  revision       TEXT NOT NULL,
  seed           INTEGER NOT NULL,     -- the 64 bits of an unsigned number
  writer         TEXT NOT NULL,        -- boot, process namespace, process and its start
  ok_count       INTEGER NOT NULL DEFAULT 0,  -- points by status, kept as they are stored
  refused_count  INTEGER NOT NULL DEFAULT 0,
  failed_count   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX run_by_device ON run (device_id);
CREATE INDEX run_by_environment ON run (environment_id);

CREATE TABLE point (
  id               INTEGER PRIMARY KEY,
  run_id           INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
  workload         TEXT NOT NULL CHECK (workload IN ('attention', 'step', 'acceptance')),
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
-- A run holds a key once; NULL is a value of the overlap here.
CREATE UNIQUE INDEX point_key ON point (run_id, strategy, context_len, num_queries, model, regime,
  split, workload, dtype, backend, cache_state, launch, ifnull(overlap, -1e300));
CREATE INDEX point_by_model ON point (model);
CREATE INDEX point_by_context ON point (context_len, num_queries);

CREATE TABLE sample (                  -- the point's time, every repetition
  point_id   INTEGER NOT NULL REFERENCES point ON DELETE CASCADE,
  repetition INTEGER NOT NULL,
  ns         REAL,
  status     TEXT NOT NULL CHECK (status IN ('ok', 'nan', 'out_of_range')),
  PRIMARY KEY (point_id, repetition),
  CHECK ((status = 'ok') = (ns IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE range (                   -- one kind of launch within a point
  id       INTEGER PRIMARY KEY,
  point_id INTEGER NOT NULL REFERENCES point ON DELETE CASCADE,
  ordinal  INTEGER NOT NULL,
  path     INTEGER NOT NULL REFERENCES word,
  launches INTEGER NOT NULL,
  flops    REAL,                       -- predicted
  UNIQUE (point_id, ordinal)
) STRICT;

CREATE TABLE range_traffic (           -- predicted bytes by term; terms of zero bytes are left out
  range_id    INTEGER NOT NULL REFERENCES range ON DELETE CASCADE,
  term        TEXT NOT NULL,
  read_bytes  REAL,
  write_bytes REAL,
  PRIMARY KEY (range_id, term)
) STRICT, WITHOUT ROWID;

CREATE TABLE range_sample (            -- GPU time of the range, every repetition
  range_id   INTEGER NOT NULL REFERENCES range ON DELETE CASCADE,
  repetition INTEGER NOT NULL,
  ns         REAL,
  status     TEXT NOT NULL CHECK (status IN ('ok', 'nan', 'out_of_range')),
  PRIMARY KEY (range_id, repetition),
  CHECK ((status = 'ok') = (ns IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE counter (
  range_id INTEGER NOT NULL REFERENCES range ON DELETE CASCADE,
  ordinal  INTEGER NOT NULL,
  metric   INTEGER NOT NULL REFERENCES word,
  value    REAL,
  status   TEXT NOT NULL CHECK (status IN
    ('ok', 'nan', 'out_of_range', 'dropped', 'denied', 'unsupported', 'off')),
  PRIMARY KEY (range_id, ordinal),
  CHECK ((status = 'ok') = (value IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE acceptance (
  point_id         INTEGER PRIMARY KEY REFERENCES point ON DELETE CASCADE,
  steps            INTEGER NOT NULL,
  generated_tokens INTEGER NOT NULL,
  accepted_mean    REAL,               -- tokens per step, bonus counted
  looping          INTEGER NOT NULL CHECK (looping IN (0, 1)),
  teacher_forced   REAL
) STRICT;

CREATE TABLE accepted_count (          -- histogram: steps that emitted `tokens` tokens
  point_id INTEGER NOT NULL REFERENCES acceptance ON DELETE CASCADE,
  tokens   INTEGER NOT NULL,
  steps    INTEGER NOT NULL,
  PRIMARY KEY (point_id, tokens)
) STRICT, WITHOUT ROWID;

CREATE TABLE diagnostic (
  id       INTEGER PRIMARY KEY,
  run_id   INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
  time_utc TEXT NOT NULL,
  severity TEXT NOT NULL CHECK (severity IN ('info', 'warning', 'error')),
  source   TEXT NOT NULL,
  text     TEXT NOT NULL
) STRICT;
CREATE INDEX diagnostic_by_run ON diagnostic (run_id);

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

-- The core counters of each range, one row a range.
CREATE VIEW v_counter_wide AS
SELECT range.id AS range_id, range.point_id, path.text AS path, range.launches,
       (SELECT sum(read_bytes) FROM range_traffic t WHERE t.range_id = range.id)
         AS predicted_read_bytes,
       (SELECT sum(write_bytes) FROM range_traffic t WHERE t.range_id = range.id)
         AS predicted_write_bytes,
       max(CASE metric.text WHEN 'dram__bytes_read.sum' THEN counter.value END) AS dram_read_bytes,
       max(CASE metric.text WHEN 'dram__bytes_write.sum' THEN counter.value END)
         AS dram_write_bytes,
       max(CASE metric.text WHEN 'lts__t_sectors.sum' THEN counter.value END) AS l2_sectors,
       max(CASE metric.text WHEN 'lts__t_sectors_lookup_hit.sum' THEN counter.value END)
         AS l2_hit_sectors,
       max(CASE metric.text WHEN 'sm__cycles_elapsed.max' THEN counter.value END)
         AS sm_cycles_elapsed
FROM range
  JOIN word path ON path.id = range.path
  LEFT JOIN counter ON counter.range_id = range.id
  LEFT JOIN word metric ON metric.id = counter.metric
GROUP BY range.id;
