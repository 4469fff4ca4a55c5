-- Version 2: a hand-out that ended remembers what the instance said with its outcome.
ALTER TABLE hand_outs ADD COLUMN detail TEXT NOT NULL DEFAULT '';
