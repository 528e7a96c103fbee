CREATE TABLE bridge_messages (
  id {id},
  repo TEXT NOT NULL,
  thread TEXT NOT NULL,
  filename TEXT NOT NULL,
  message_type TEXT NOT NULL,
  from_rig TEXT NOT NULL,
  to_rig TEXT NOT NULL,
  lifecycle_state TEXT NOT NULL CHECK (lifecycle_state IN ('drafted', 'sent', 'received', 'acked', 'resolved', 'superseded')),
  status_class TEXT NOT NULL CHECK (status_class IN ('active', 'pending', 'targeted', 'completed', 'cancelled')),
  status_text TEXT NOT NULL,
  tldr TEXT,
  envelope_date TEXT NOT NULL,
  commit_sha TEXT NOT NULL,
  parent_refs TEXT,
  run_id TEXT,
  body_hash TEXT NOT NULL,
  in_reply_to TEXT,
  nonce TEXT,
  attested_by TEXT,
  attested_at TEXT,
  path TEXT NOT NULL,
  blob TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('pending', 'verified', 'unsigned', 'refused', 'unknown')),
  rules TEXT,
  signature_good BOOLEAN,
  signer TEXT,
  signer_principal TEXT,
  commit_time TEXT NOT NULL,
  created_at TEXT NOT NULL,
  words TEXT,
  UNIQUE (commit_sha, repo, thread, filename, to_rig)
);
CREATE INDEX bridge_messages_thread ON bridge_messages (thread, repo, to_rig);
CREATE INDEX bridge_messages_status_class ON bridge_messages (status_class);
CREATE INDEX bridge_messages_lifecycle_state ON bridge_messages (lifecycle_state);
CREATE INDEX bridge_messages_to_rig ON bridge_messages (to_rig);
CREATE INDEX bridge_messages_body_hash ON bridge_messages (body_hash, repo);
CREATE INDEX bridge_messages_nonce ON bridge_messages (nonce) WHERE nonce IS NOT NULL;
CREATE INDEX bridge_messages_time ON bridge_messages (repo, commit_time);
CREATE INDEX bridge_messages_unverified ON bridge_messages (repo, commit_time) WHERE signature_good IS NULL OR NOT signature_good;
CREATE INDEX bridge_messages_relays ON bridge_messages (repo, commit_time) WHERE attested_by IS NOT NULL;
{search}
CREATE TABLE bridge_message_events (
  id {id},
  message_id {ref} NOT NULL REFERENCES bridge_messages (id),
  event_type TEXT NOT NULL CHECK (event_type IN ('drafted', 'sent', 'received', 'acked', 'resolved', 'superseded', 'diverged', 'frozen')),
  rig TEXT NOT NULL,
  notes TEXT,
  created_at TEXT NOT NULL,
  commit_sha TEXT NOT NULL,
  UNIQUE (message_id, event_type, rig, commit_sha)
);
CREATE INDEX bridge_message_events_rare ON bridge_message_events (event_type, created_at) WHERE event_type IN ('diverged', 'frozen');
CREATE TABLE rigward_repositories (repo TEXT PRIMARY KEY, root TEXT, uuid TEXT, place TEXT, judged TEXT, indexed_at TEXT);
CREATE TABLE rigward_refused (
  repo TEXT NOT NULL,
  commit_sha TEXT NOT NULL,
  path TEXT NOT NULL,
  thread TEXT NOT NULL,
  filename TEXT NOT NULL,
  committer TEXT,
  rules TEXT NOT NULL,
  commit_time TEXT NOT NULL,
  PRIMARY KEY (repo, commit_sha, path)
);
CREATE INDEX rigward_refused_time ON rigward_refused (repo, commit_time, commit_sha, path);
CREATE TABLE rigward_tips (repo TEXT NOT NULL, ref TEXT NOT NULL, commit_sha TEXT NOT NULL, PRIMARY KEY (repo, ref, commit_sha));
CREATE TABLE rigward_threads (
  repo TEXT NOT NULL,
  thread TEXT NOT NULL,
  last_id {ref} NOT NULL REFERENCES bridge_messages (id),
  turn_id {ref} REFERENCES bridge_messages (id),
  last_time TEXT NOT NULL,
  closed BOOLEAN NOT NULL,
  PRIMARY KEY (thread, repo)
);
CREATE INDEX rigward_threads_last_time ON rigward_threads (repo, last_time);
{append-only bridge_message_events}

CREATE TABLE IF NOT EXISTS rigward_pushes (
  repo TEXT NOT NULL,
  id TEXT NOT NULL,
  push TEXT NOT NULL,
  stage TEXT NOT NULL CHECK (stage IN ('received', 'judged', 'landed')),
  hook TEXT NOT NULL,
  at TEXT NOT NULL,
  pusher TEXT,
  who TEXT,
  refs TEXT,
  exit_code INTEGER,
  duration_ms DOUBLE PRECISION,
  commits INTEGER,
  rules TEXT,
  places TEXT,
  problem TEXT,
  PRIMARY KEY (repo, id)
);
CREATE INDEX IF NOT EXISTS rigward_pushes_at ON rigward_pushes (repo, at, id);
CREATE INDEX IF NOT EXISTS rigward_pushes_push ON rigward_pushes (push, stage);
