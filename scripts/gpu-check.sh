#!/usr/bin/env bash
# Checks the engine on a GPU, also on a machine without internet and Node.js: builds its addon against the machine's own
# torch, runs the tests that need a GPU, and prints the bench table. To be run in a checkout:
#
#   scripts/gpu-check.sh --pack FILE.tgz    where `npm run setup` was done: packs Node.js and the npm packages needed
#   tar -xzf FILE.tgz                       on the GPU machine, if that has none of its own
#   scripts/gpu-check.sh [BENCH OPTION...]  on the GPU machine; without options, the bench is --quick --device cuda
#
# Needs CMake 3.20, make or ninja, a C++20 compiler, and torch in python3, of any minor version that the code compiles
# against. Node.js is NODE, else the packed one, else the one on PATH.
# Exit code: 0 all passed; 1 something failed; 2 something is missing; 3 there is no GPU, so that nothing was tested.
set -euo pipefail
cd "$(dirname "$0")/.."
packed=.build/node

if [ "${1:-}" = --pack ]; then
  [ $# -eq 2 ] || { echo "usage: scripts/gpu-check.sh --pack FILE.tgz" >&2; exit 2; }
  mkdir -p .build
  cp "${NODE:-$(node -p process.execPath)}" "$packed"
  tar -czhf "$2" --exclude={'*.map','*.d.ts','*.d.mts','*.d.cts','*.md'} \
    --exclude=node_modules/{.bin,@biomejs,clang-format-node,@typescript,typescript,cmake-js,node-gyp,prebuildify} \
    "$packed" node_modules
  du -h "$2"
  exit
fi

missing=()
node=${NODE:-$packed}
[ -n "${NODE:-}" ] || [ -x "$packed" ] || node=node
"$node" -e 'process.exitCode = process.versions.node.split(".")[0] < 20 ? 1 : 0' 2>/dev/null ||
  missing+=("Node.js 20 or newer (tried $node): set NODE to its binary, or unpack what --pack made")
for package in node-addon-api node-api-headers vitest tsx commander; do
  [ -d "node_modules/$package" ] || missing+=("node_modules/$package: npm ci, or unpack what --pack made")
done
command -v cmake >/dev/null || missing+=("cmake")
torch=$(python3 -c 'import os, torch; print(torch.__version__.split("+")[0], os.path.dirname(torch.__file__))') ||
  missing+=("torch in $(command -v python3 || echo "python3, which is missing itself")")
if [ ${#missing[@]} -gt 0 ]; then
  printf 'gpu-check: missing: %s\n' "${missing[@]}" >&2
  exit 2
fi
export TOKENGRAD_LIBTORCH_VERSION=${torch%% *} LIBTORCH=${torch#* }

failed=()
stage() {
  echo "== $1 ($SECONDS s)"
  "${@:2}" || failed+=("$1")
}

build() {
  local generator=()
  command -v ninja >/dev/null && generator=(-G Ninja)
  cmake -S . -B .build/gpu-check "${generator[@]}" -DLIBTORCH="$LIBTORCH" \
    -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$PWD/build/Release" >.build/gpu-check.log &&
    cmake --build .build/gpu-check --target tokengrad --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" \
      >>.build/gpu-check.log &&
    ln -sfn "$LIBTORCH" build/libtorch && return
  tail -n 40 .build/gpu-check.log
  return 1
}

device_found() {
  "$node" -e '
    const { Engine } = require("./build/Release/tokengrad.node");
    new Engine({ device: "auto", threads: 1 }).open().promise.then(({ device, fallbackReason }) => {
      console.log(fallbackReason ?? device);
      process.exitCode = fallbackReason === undefined ? 0 : 3;
    });'
}

echo "torch $TOKENGRAD_LIBTORCH_VERSION in $LIBTORCH; Node.js $("$node" --version)"
mkdir -p .build build/Release
stage build build
[ ${#failed[@]} -eq 0 ] || exit 1
device=$(device_found) || {
  code=$?
  echo "gpu-check: no GPU, nothing was tested: $device"
  [ $code -eq 3 ] && exit 3 || exit 1
}
echo "device: $device"

# One file after the other: one of them watches the memory of the GPU.
stage tests "$node" node_modules/vitest/vitest.mjs run test/gpu test/engine test/golden -t cuda --no-file-parallelism
[ $# -gt 0 ] || set -- --quick --device cuda
stage bench "$node" --import tsx bench/main.ts "$@"
echo "== done ($SECONDS s)${failed[*]:+; failed: ${failed[*]}}"
[ ${#failed[@]} -eq 0 ]
