-- What a lossy choice costs: one strategy of one trained pair on one set of questions or texts,
-- beside the exact run of the same target. Intervals are of 95 %; texts have no questions.
CREATE TABLE quality (
  id            INTEGER PRIMARY KEY,
  run_id        INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
  model         INTEGER NOT NULL REFERENCES word,  -- the pair's name
  pair          INTEGER NOT NULL REFERENCES word,  -- SHA-256 of its files
  set_name      INTEGER NOT NULL REFERENCES word,
  distance      INTEGER NOT NULL REFERENCES word,  -- tokens from evidence to question; empty: all
  split         INTEGER NOT NULL REFERENCES word,
  strategy      INTEGER NOT NULL REFERENCES word,
  dtype         INTEGER NOT NULL REFERENCES word,
  backend       INTEGER NOT NULL REFERENCES word,
  set_sha256    INTEGER NOT NULL REFERENCES word,  -- of the files that were read
  read_as       INTEGER NOT NULL REFERENCES word,  -- what was verified together
  tokens        INTEGER NOT NULL,                  -- scored
  loss_nats     REAL NOT NULL,                     -- a token
  kl_nats       REAL NOT NULL,                     -- KL(exact || strategy) a token
  kl_nats_low   REAL NOT NULL,
  kl_nats_high  REAL NOT NULL,
  rise_nats     REAL NOT NULL,                     -- of the loss, over the exact run's
  rise_nats_low REAL NOT NULL,
  rise_nats_high REAL NOT NULL,
  same_token    REAL NOT NULL,                     -- share with the exact run's likeliest token
  same_token_low REAL NOT NULL,
  same_token_high REAL NOT NULL,
  questions     INTEGER,
  right_answers INTEGER,
  gained        INTEGER,                           -- right here, and not in the exact run
  lost          INTEGER,                           -- the other way round
  accuracy      REAL,
  accuracy_low  REAL,
  accuracy_high REAL,
  change        REAL,                              -- of the accuracy, over the exact run's
  change_low    REAL,
  change_high   REAL,
  CHECK ((questions IS NULL) = (right_answers IS NULL)),
  CHECK ((questions IS NULL) = (accuracy IS NULL)),
  CHECK ((questions IS NULL) = (change IS NULL))
) STRICT;
CREATE UNIQUE INDEX quality_key ON quality (run_id, strategy, pair, model, set_name, distance, split,
  dtype, backend);
CREATE INDEX quality_by_pair ON quality (pair);

-- For people with a SQL prompt.
CREATE VIEW v_quality AS
SELECT q.id, run.uuid AS run, device.name AS device, model.text AS model, pair.text AS pair_sha256,
       sets.text AS set_name, distance.text AS distance, split.text AS split,
       strategy.text AS strategy, dtype.text AS dtype, backend.text AS backend,
       read_as.text AS read_as, q.tokens, q.loss_nats, q.kl_nats, q.kl_nats_low, q.kl_nats_high,
       q.rise_nats, q.rise_nats_low, q.rise_nats_high, q.same_token, q.same_token_low,
       q.same_token_high, q.questions, q.right_answers, q.gained, q.lost, q.accuracy,
       q.accuracy_low, q.accuracy_high, q.change, q.change_low, q.change_high
FROM quality q
  JOIN run ON run.id = q.run_id
  JOIN device ON device.id = run.device_id
  JOIN word model ON model.id = q.model
  JOIN word pair ON pair.id = q.pair
  JOIN word sets ON sets.id = q.set_name
  JOIN word distance ON distance.id = q.distance
  JOIN word split ON split.id = q.split
  JOIN word strategy ON strategy.id = q.strategy
  JOIN word dtype ON dtype.id = q.dtype
  JOIN word backend ON backend.id = q.backend
  JOIN word read_as ON read_as.id = q.read_as;
