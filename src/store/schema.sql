-- The store of the gateway, version 1. House rules: STRICT, no NULL (an empty text or 0 says
-- "none"), AUTOINCREMENT where a number must never come back, times in Unix milliseconds (_ms),
-- `*_key` holds the lower-case form that equality means, an index is named after its query.

CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('events', 0), ('held', 0);

-- Room that is taken to learn whether the disk has some; empty but for that moment.
CREATE TABLE probes (
    id     INTEGER PRIMARY KEY,
    filler BLOB NOT NULL
) STRICT;

-- One row per stored event. `state`: routed (has deliveries), held (resolved, no consumer yet),
-- grace (not resolved yet), expired (payload gone, kept so that a crash repeats the record).
-- `resolved_by` is the kind of reference that named the work item, and its key behind a colon.
CREATE TABLE events (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    state          TEXT NOT NULL CHECK (state IN ('routed', 'held', 'grace', 'expired')),
    state_at_ms    INTEGER NOT NULL,
    handled        INTEGER NOT NULL DEFAULT 0,
    provider       TEXT NOT NULL,
    transport      TEXT NOT NULL,
    kind           TEXT NOT NULL,
    delivery_id    TEXT NOT NULL,
    received_at_ms INTEGER NOT NULL,
    work_item      TEXT NOT NULL DEFAULT '',
    subject        TEXT NOT NULL DEFAULT '',
    subject_key    TEXT NOT NULL DEFAULT '',
    resolved_by    TEXT NOT NULL DEFAULT '',
    actor          TEXT NOT NULL DEFAULT '',
    actor_key      TEXT NOT NULL DEFAULT '',
    dedup_keys     TEXT NOT NULL,
    headers        TEXT NOT NULL,
    payload_bytes  INTEGER NOT NULL,
    payload        BLOB NOT NULL
) STRICT;
CREATE INDEX events_held_of_subject ON events (subject_key, id) WHERE state = 'held';
CREATE INDEX events_held_of_actor ON events (provider, actor_key, id) WHERE state = 'held';
CREATE INDEX events_waiting_by_age ON events (state, state_at_ms) WHERE state <> 'routed';
CREATE INDEX events_of_subject ON events (subject_key, id);
CREATE INDEX events_by_arrival ON events (received_at_ms);

-- Further work items of an event (a CI run of several pull requests, a shared head commit).
CREATE TABLE event_links (
    event_id    INTEGER NOT NULL,
    subject_key TEXT NOT NULL,
    work_item   TEXT NOT NULL,
    PRIMARY KEY (event_id, subject_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_links_of_subject ON event_links (subject_key, event_id);

-- The ways to name the work item of an event in grace; gone once it is resolved.
CREATE TABLE event_references (
    event_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind     TEXT NOT NULL
        CHECK (kind IN ('direct', 'binding', 'commit', 'room', 'declared-room')),
    provider TEXT NOT NULL,
    key      TEXT NOT NULL,
    PRIMARY KEY (event_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_references_of_key ON event_references (kind, provider, key, event_id);

-- What counts as seen. One tree and no index by event: keys are spread at random, so every tree
-- that holds them costs a page a key. An event knows its own keys (`events.dedup_keys`).
CREATE TABLE seen_keys (
    key        TEXT PRIMARY KEY,
    event_id   INTEGER NOT NULL,
    seen_at_ms INTEGER NOT NULL,
    handled    INTEGER NOT NULL DEFAULT 0,
    orphan     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_keys_orphans_by_age ON seen_keys (seen_at_ms) WHERE orphan = 1;

CREATE TABLE instances (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT NOT NULL UNIQUE,
    created_at_ms  INTEGER NOT NULL,
    peer           TEXT NOT NULL DEFAULT '',
    run            TEXT NOT NULL DEFAULT '',
    run_is_made_up INTEGER NOT NULL DEFAULT 0,
    held_since_ms  INTEGER NOT NULL DEFAULT 0,
    lease_ms       INTEGER NOT NULL DEFAULT 0,
    lease_until_ms INTEGER NOT NULL DEFAULT 0,
    lapsed_at_ms   INTEGER NOT NULL DEFAULT 0,
    fetched_at_ms  INTEGER NOT NULL DEFAULT 0,
    last_number    INTEGER NOT NULL DEFAULT 0,
    echoed_number  INTEGER NOT NULL DEFAULT 0,
    backlog        INTEGER NOT NULL DEFAULT 0,
    -- When its claims and actors went because it asked for nothing; the row stays as long as
    -- ended deliveries can name it.
    forgotten_at_ms INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The runs that a newer run of the same peer took over from; the newest 16 of each instance.
CREATE TABLE superseded_runs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    instance_id INTEGER NOT NULL,
    run         TEXT NOT NULL
) STRICT;
CREATE INDEX superseded_runs_of_instance ON superseded_runs (instance_id, run);

-- The numbers that responses with deliveries were given: what a cursor can name.
CREATE TABLE response_numbers (
    instance_id INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    run         TEXT NOT NULL,
    PRIMARY KEY (instance_id, number)
) STRICT, WITHOUT ROWID;

-- One subject of one queue; its row is the queue's view of it, so that a fetch looks at heads
-- and never at what waits behind them. `state`: 0 open (the head may go), 1 waiting (the head is
-- due later), 2 busy (something of it is in hand). Gone when nothing is left. An event without a
-- work item has a lane of its own.
CREATE TABLE lanes (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    instance_id    INTEGER NOT NULL,
    lane_key       TEXT NOT NULL,
    state          INTEGER NOT NULL CHECK (state IN (0, 1, 2)),
    head_event_id  INTEGER NOT NULL,
    head_due_at_ms INTEGER NOT NULL,
    UNIQUE (lane_key, instance_id)
) STRICT;
CREATE INDEX lanes_open_by_event ON lanes (instance_id, head_event_id) WHERE state = 0;
CREATE INDEX lanes_waiting_by_due ON lanes (instance_id, head_due_at_ms) WHERE state = 1;

-- One event on one queue. `state`: 0 ready, 1 handed, 2 settled, 3 dead, 4 expired.
-- `handed_*` is the present hand-out, or the one that an outcome settled; `ended_at_ms` is when it
-- was settled, dead or expired. `after` says how the last hand-out ended.
CREATE TABLE deliveries (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    instance_id   INTEGER NOT NULL,
    event_id      INTEGER NOT NULL,
    lane_id       INTEGER NOT NULL,
    state         INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
    due_at_ms     INTEGER NOT NULL DEFAULT 0,
    attempt       INTEGER NOT NULL DEFAULT 1,
    strikes       INTEGER NOT NULL DEFAULT 0,
    losses        INTEGER NOT NULL DEFAULT 0,
    suspect       INTEGER NOT NULL DEFAULT 0,
    ever_handed   INTEGER NOT NULL DEFAULT 0,
    handed_number INTEGER NOT NULL DEFAULT 0,
    handed_run    TEXT NOT NULL DEFAULT '',
    handed_at_ms  INTEGER NOT NULL DEFAULT 0,
    routed_at_ms  INTEGER NOT NULL,
    ended_at_ms   INTEGER NOT NULL DEFAULT 0,
    redrive_of    INTEGER NOT NULL DEFAULT 0,
    replaced      INTEGER NOT NULL DEFAULT 0,
    outcome       TEXT NOT NULL DEFAULT '',
    detail        TEXT NOT NULL DEFAULT '',
    why           TEXT NOT NULL
) STRICT;
-- SQLite takes a partial index only for a query that repeats its condition word for word.
CREATE INDEX deliveries_ready_of_lane ON deliveries (lane_id, event_id, seq) WHERE state = 0;
CREATE INDEX deliveries_handed_of_lane ON deliveries (lane_id, event_id) WHERE state = 1;
CREATE INDEX deliveries_live_of_queue ON deliveries (instance_id, seq) WHERE state <= 1;
CREATE INDEX deliveries_in_hand ON deliveries (instance_id, handed_number, seq) WHERE state = 1;
CREATE INDEX deliveries_retrying_by_due ON deliveries (due_at_ms) WHERE state = 0 AND due_at_ms > 0;
CREATE INDEX deliveries_of_event ON deliveries (event_id);
CREATE INDEX deliveries_ended_by_age ON deliveries (state, ended_at_ms) WHERE state >= 2;
CREATE INDEX deliveries_dead_of_queue ON deliveries (instance_id, seq)
    WHERE state = 3 AND replaced = 0;
CREATE INDEX deliveries_suspect_of_queue ON deliveries (instance_id) WHERE suspect = 1 AND state <= 1;
CREATE INDEX deliveries_replacing ON deliveries (redrive_of) WHERE redrive_of > 0;

-- Hand-outs that ended without settling the delivery; the newest 16 of each.
CREATE TABLE hand_outs (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    seq          INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    run          TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    handed_at_ms INTEGER NOT NULL,
    ended_at_ms  INTEGER NOT NULL,
    ended        TEXT NOT NULL
) STRICT;
CREATE INDEX hand_outs_of_delivery ON hand_outs (seq, id);

CREATE TABLE claims (
    subject_key   TEXT NOT NULL,
    instance_id   INTEGER NOT NULL,
    role          TEXT NOT NULL CHECK (role IN ('driver', 'reviewer')),
    subject       TEXT NOT NULL,
    claimed_at_ms INTEGER NOT NULL,
    unattended    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (subject_key, instance_id, role)
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_of_instance ON claims (instance_id);
CREATE INDEX claims_unattended ON claims (subject_key) WHERE unattended = 1;

CREATE TABLE actors (
    provider         TEXT NOT NULL,
    actor_key        TEXT NOT NULL,
    actor            TEXT NOT NULL,
    instance_id      INTEGER NOT NULL,
    registered_at_ms INTEGER NOT NULL,
    PRIMARY KEY (provider, actor_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX actors_of_instance ON actors (instance_id);

-- key → work items. GitHub and Jira keys hold a set, a Slack key one.
CREATE TABLE bindings (
    provider      TEXT NOT NULL,
    key           TEXT NOT NULL,
    work_item_key TEXT NOT NULL,
    work_item     TEXT NOT NULL,
    subject_key   TEXT NOT NULL,
    instance_id   INTEGER NOT NULL,
    bound_at_ms   INTEGER NOT NULL,
    used_at_ms    INTEGER NOT NULL,
    PRIMARY KEY (provider, key, work_item_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX bindings_of_subject ON bindings (subject_key);
CREATE INDEX bindings_by_use ON bindings (used_at_ms);

CREATE TABLE rooms (
    channel        TEXT PRIMARY KEY,
    work_item      TEXT NOT NULL,
    instance_id    INTEGER NOT NULL,
    published_at_ms INTEGER NOT NULL,
    used_at_ms     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX rooms_of_instance ON rooms (instance_id);
CREATE INDEX rooms_by_use ON rooms (used_at_ms);

-- head commit → pull requests.
CREATE TABLE commits (
    repository    TEXT NOT NULL,
    sha           TEXT NOT NULL,
    work_item_key TEXT NOT NULL,
    work_item     TEXT NOT NULL,
    used_at_ms    INTEGER NOT NULL,
    PRIMARY KEY (repository, sha, work_item_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX commits_by_use ON commits (used_at_ms);

-- Waiting events that a registration covers and that are not taken up yet: those behind
-- `after_event_id`. `scope`: subject and linked (key is a subject_key), actor and binding (key is
-- provider:key), commit (repository@sha), room (channel).
CREATE TABLE pending_routings (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    scope          TEXT NOT NULL
        CHECK (scope IN ('subject', 'linked', 'actor', 'binding', 'commit', 'room')),
    key            TEXT NOT NULL,
    after_event_id INTEGER NOT NULL,
    created_at_ms  INTEGER NOT NULL,
    UNIQUE (scope, key)
) STRICT;

-- What a poller knows of one list of a source: where to go on, and how to ask for changes only.
-- `watermark` is up to when everything was told, `baseline` from when on; the ETag belongs to
-- exactly this URL. `handled` names what was told at or after the watermark, one a line.
CREATE TABLE poll_lists (
    source       TEXT NOT NULL,
    list         TEXT NOT NULL,
    watermark_ms INTEGER NOT NULL DEFAULT 0,
    baseline_ms  INTEGER NOT NULL DEFAULT 0,
    url          TEXT NOT NULL DEFAULT '',
    etag         TEXT NOT NULL DEFAULT '',
    handled      TEXT NOT NULL DEFAULT '',
    note         TEXT NOT NULL DEFAULT '',
    saved_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (source, list)
) STRICT, WITHOUT ROWID;

-- What a poller knows of one item: what remains to be read of it, what was told of it, and its
-- presence. What was said of it before `floor_ms` is not told; `handled` names what was, one a
-- line. `version` is what its presence would state now (empty: nothing), `presence_*` the event
-- that stated it last. A forgotten item is here only because that event is outstanding.
CREATE TABLE poll_items (
    source            TEXT NOT NULL,
    work_item_key     TEXT NOT NULL,
    work_item         TEXT NOT NULL,
    subject_key       TEXT NOT NULL,
    kind              TEXT NOT NULL CHECK (kind IN ('issue', 'pull-request')),
    pending           INTEGER NOT NULL DEFAULT 0,
    forgotten         INTEGER NOT NULL DEFAULT 0,
    floor_ms          INTEGER NOT NULL,
    head              TEXT NOT NULL DEFAULT '',
    handled           TEXT NOT NULL DEFAULT '',
    version           TEXT NOT NULL DEFAULT '',
    payload           BLOB NOT NULL DEFAULT x'',
    payload_bytes     INTEGER NOT NULL DEFAULT 0,
    presence_event_id INTEGER NOT NULL DEFAULT 0,
    presence_version  TEXT NOT NULL DEFAULT '',
    presence_state    TEXT NOT NULL DEFAULT ''
        CHECK (presence_state IN ('', 'outstanding', 'dead', 'settled')),
    seen_at_ms        INTEGER NOT NULL,
    PRIMARY KEY (source, work_item_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX poll_items_pending ON poll_items (source, work_item_key) WHERE pending = 1;

-- The last message seen of a Slack thread or room, for the catch-up.
CREATE TABLE slack_marks (
    channel      TEXT NOT NULL,
    thread_ts    TEXT NOT NULL,
    last_ts      TEXT NOT NULL,
    active_at_ms INTEGER NOT NULL,
    PRIMARY KEY (channel, thread_ts)
) STRICT, WITHOUT ROWID;
CREATE INDEX slack_marks_by_activity ON slack_marks (active_at_ms);
