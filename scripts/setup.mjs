// Makes the checkout ready to run: `node scripts/setup.mjs [packages] [libtorch] [native] [typescript]`, all by default.
// This file alone is written for an old Node.js too, which is to be told that it is too old.
if (Number(process.versions.node.split(".")[0]) >= 20) {
  import("./setup/main.mjs");
} else {
  console.error(
    `tokengrad set-up: Node.js 20 or newer is missing (found ${process.version}); ` +
      "install it from your system's packages or with nvm install 20, then run this again",
  );
  process.exitCode = 1;
}
