-- What each text's decoding yielded, of an acceptance point: one request's steps and tokens, so that
-- means can say how much texts differ. Absent: nobody counted by text.
CREATE TABLE accepted_text (
  point_id INTEGER NOT NULL REFERENCES acceptance ON DELETE CASCADE,
  text     INTEGER NOT NULL REFERENCES word,  -- which text: file and first token
  steps    INTEGER NOT NULL,
  tokens   INTEGER NOT NULL,                  -- that they yielded, bonus counted
  looping  INTEGER NOT NULL CHECK (looping IN (0, 1)), -- the text repeats itself
  PRIMARY KEY (point_id, text)
) STRICT, WITHOUT ROWID;
