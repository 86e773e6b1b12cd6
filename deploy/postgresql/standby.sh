#!/bin/bash
# standby.sh NAME: a standby of the server PRIMARY, under a name. At its first start it copies the primary's files.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    until PGPASSWORD=$POSTGRES_PASSWORD pg_basebackup -h "$PRIMARY" -U postgres -D "$PGDATA" -R -c fast; do
        sleep 1
    done
    chmod 700 "$PGDATA"
fi
exec postgres -c cluster_name="$1"
