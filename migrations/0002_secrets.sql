-- Secrets (storage credentials): outside the log, where only their ids go. Encrypted by security/secrets.py; ordinary
-- UPDATE is allowed here, because to destroy one is to blank it.

create table icecore.secrets (
    id           uuid        primary key,
    project_id   uuid        not null,
    version      integer     not null default 1 check (version >= 1), -- counts encryptions of this row (rewrap)
    key_id       text        not null,                               -- fingerprint of the key that wrote it
    nonce        bytea       check (octet_length(nonce) = 12),
    ciphertext   bytea,
    created_at   timestamptz not null default now(),
    destroyed_at timestamptz,
    check ((destroyed_at is null) = (ciphertext is not null)),
    check ((nonce is null) = (ciphertext is null))
);

comment on table icecore.secrets is 'AES-256-GCM; additional data binds each row to its table, id, version and project';
