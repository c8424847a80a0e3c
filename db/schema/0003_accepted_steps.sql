-- What each step yielded on its way along a text, so that a policy that changes the tuple within a
-- request can be played over what was recorded (engine/replay).
CREATE TABLE accepted_step (
  point_id INTEGER NOT NULL REFERENCES acceptance ON DELETE CASCADE,
  text     INTEGER NOT NULL REFERENCES word,  -- which text: file and first byte
  position INTEGER NOT NULL,                  -- tokens of the text behind the step
  tokens   INTEGER NOT NULL,                  -- that it yielded, bonus counted
  PRIMARY KEY (point_id, text, position)
) STRICT, WITHOUT ROWID;
