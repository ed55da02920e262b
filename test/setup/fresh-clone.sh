#!/usr/bin/env bash
# The whole of set-up for real, by hand (minutes): `bash test/setup/fresh-clone.sh` on a clone of HEAD with an empty cache.
# It kills set-up at several moments, then starts two at once, then a third that must find nothing to do.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q "$(dirname "$0")/../.." "$work/clone"
cd "$work/clone"
export TOKENGRAD_CACHE=$work/cache

for seconds in 1 3 6 10 15 30; do
  setsid npm run --silent setup >"$work/killed.log" 2>&1 &
  sleep "$seconds"
  kill -KILL -- -$! 2>/dev/null || true
  wait $! 2>/dev/null || true
  echo "killed after $seconds s at: $(tail -n 1 "$work/killed.log")"
done

SECONDS=0
npm run --silent setup >"$work/first.log" 2>&1 &
first=$!
sleep 0.5
npm run --silent setup >"$work/second.log" 2>&1 &
second=$!
wait $first
wait $second
echo "two at once: $SECONDS s"
cat "$work/first.log" "$work/second.log"
grep -hq "waiting for the set-up of this checkout" "$work/first.log" "$work/second.log"

begin=$(date +%s%N)
npm run --silent setup 2>&1 | grep -x "set-up: all is ready"
echo "nothing to do: $((($(date +%s%N) - begin) / 1000000)) ms"
node -e 'for (const name of ["tokengrad", "trainer"]) require(`./build/Release/${name}.node`)'

npx node-gyp rebuild >"$work/node-gyp.log" 2>&1
node -e 'require("./build/Release/tokengrad.node")'
npx prebuildify --napi >"$work/prebuildify.log" 2>&1
node -e 'for (const name of ["tokengrad", "trainer"]) require(`./prebuilds/${process.platform}-${process.arch}/${name}.node`)'
echo "node-gyp and prebuildify: both load"
