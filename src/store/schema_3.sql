-- Version 3: the same conditions in words that cost nothing. A list of more than two values is a
-- table that SQLite builds for every row that it checks; comparisons are not. What is stored does
-- not change, so the text of the tables is replaced, as SQLite's ALTER TABLE page describes.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (state IN (''routed'', ''held'', ''grace'', ''expired''))',
    'CHECK (state = ''routed'' OR state = ''held'' OR state = ''grace'' OR state = ''expired'')')
WHERE type = 'table' AND name = 'events';
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (state IN (0, 1, 2))',
    'CHECK (state BETWEEN 0 AND 2)')
WHERE type = 'table' AND name = 'lanes';
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (kind IN (''direct'', ''binding'', ''commit'', ''room'', ''declared-room''))',
    'CHECK (kind = ''direct'' OR kind = ''binding'' OR kind = ''commit'' OR kind = ''room''
            OR kind = ''declared-room'')')
WHERE type = 'table' AND name = 'event_references';
PRAGMA writable_schema = RESET;
