# Owns the server: starts one for every line it reads, and ends it with its data when its input ends. That
# happens when the test process closes it, and when the test process dies, however it dies.
cluster=$1
shift
server=
while read -r _; do
    # The old one is dead, but its process id counts as taken until somebody has waited for it.
    [ -z "$server" ] || wait "$server"
    "$@" </dev/null >>"$cluster/log" 2>&1 &
    server=$!
    echo "$server"
done
if [ -n "$server" ]; then
    kill -QUIT "$server" 2>/dev/null
    wait "$server"
fi
# A server that was killed left the piece of System V memory that guards its data directory.
if [ -f "$cluster/data/postmaster.pid" ]; then
    ipcrm -m "$(sed -n '7s/.* //p' "$cluster/data/postmaster.pid")" 2>/dev/null
fi
rm -rf "$cluster"
