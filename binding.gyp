# The door for node-gyp and prebuildify to the one build, which CMake does: no source list here.
{
  "targets": [
    {
      "target_name": "addons",
      "type": "none",
      "actions": [
        {
          "action_name": "cmake",
          "message": "Building the addons through CMake",
          "inputs": [],
          # A file that nothing makes: what is out of date is for CMake to find out, each time.
          "outputs": ["<(PRODUCT_DIR)/always"],
          "action": ["node", "scripts/setup.mjs", "native"]
        }
      ]
    }
  ]
}
