# A server with two locks for which three clients wait, one long, the other briefly: `mariadb.sh UFUTEX OUTPUT orders|prices`.
# orders is a lock by GET_LOCK(), prices is a table.
set -eu
PATH=$PATH:/usr/sbin
ufutex=$1 output=$2 long=$3
folder=$(mktemp -d)
cd "$folder"
export TMPDIR="$folder" # servers that share a directory delete each other's temporary tables
mariadb-install-db --no-defaults --datadir="$folder/data" --auth-root-authentication-method=normal >log 2>&1 || { cat log; exit 1; }
as=; [ "$(id -u)" = 0 ] && as='--user=root'
"$ufutex" locks --json -o "$output" -- mariadbd --no-defaults $as --datadir="$folder/data" --socket="$folder/s" \
  --skip-networking --innodb-buffer-pool-size=16M >log2 2>&1 &
server=$!
until mariadb-admin --no-defaults --socket="$folder/s" -u root ping >/dev/null 2>&1; do sleep 0.1; kill -0 $server || { cat log2; exit 1; }; done
sql() { mariadb --no-defaults --socket="$folder/s" -u root --skip-column-names --unbuffered "$@"; }

# contend NAME TAKE RELEASE WAIT: three clients run WAIT while another one has run TAKE but not RELEASE.
contend() {
  mkfifo "$1"
  sql test <"$1" >"$1.out" & clients=$!
  exec 3>"$1"
  echo "$2; select 'taken';" >&3
  until grep -q taken "$1.out"; do sleep 0.01; done
  for _ in 1 2 3; do sql test -e "$4" >/dev/null & clients="$clients $!"; done
  waiting="select count(*) from information_schema.processlist where state in ('User lock', 'Waiting for table metadata lock')"
  until [ "$(sql -e "$waiting")" = 3 ]; do sleep 0.01; done
  if [ "$1" = "$long" ]; then sleep 2; fi
  echo "$3;" >&3
  exec 3>&-
  wait $clients
}
sql -e 'create database if not exists test; create table test.prices (price int)'
contend orders "select get_lock('orders', 100)" "do release_lock('orders')" "select get_lock('orders', 100); do release_lock('orders')"
contend prices 'lock tables prices write' 'unlock tables' 'select * from prices'
mariadb-admin --no-defaults --socket="$folder/s" -u root shutdown
wait $server
cd / && rm -r "$folder"
