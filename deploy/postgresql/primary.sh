#!/bin/bash
# Runs once at initdb: role, database and replication access. synchronous_standby_names takes effect at the next start, when
# standbys exist.
set -eu
psql -v ON_ERROR_STOP=1 -U postgres -c "create role tendot login password 'secret'" \
    -c "create database tendot owner tendot"
echo "host replication postgres all scram-sha-256" >> "$PGDATA/pg_hba.conf"
echo "synchronous_standby_names = 'any 1 (one, two, three)'" >> "$PGDATA/postgresql.conf"
