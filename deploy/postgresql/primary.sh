#!/bin/bash
# Done once, when the files of the primary are made: the user and the database, and who may follow. The last line holds from the
# next start on; before that nobody would be there to be waited for.
set -eu
psql -v ON_ERROR_STOP=1 -U postgres -c "create role tendot login password 'secret'" \
    -c "create database tendot owner tendot"
echo "host replication postgres all scram-sha-256" >> "$PGDATA/pg_hba.conf"
echo "synchronous_standby_names = 'any 1 (one, two, three)'" >> "$PGDATA/postgresql.conf"
