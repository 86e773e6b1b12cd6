#!/bin/bash
# standby.sh NAME: starts a standby of $PRIMARY with cluster_name NAME; takes a base backup at the first start.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    until PGPASSWORD=$POSTGRES_PASSWORD pg_basebackup -h "$PRIMARY" -U postgres -D "$PGDATA" -R -c fast; do
        sleep 1
    done
    chmod 700 "$PGDATA"
fi
exec postgres -c cluster_name="$1"
