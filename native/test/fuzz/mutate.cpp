// Runs a fuzz target on its corpus and on inputs made of it by random changes, for compilers
// without libFuzzer: `wire_fuzz CORPUS [SECONDS [SEED]]`. The same seed makes the same inputs. The
// input that a check or a sanitizer stopped at is left in `fuzz-failure`.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

constexpr size_t kMostBytes = 4096;

std::string input;

void keep_input() {
  std::ofstream("fuzz-failure", std::ios::binary) << input;
  std::cerr << "the input is in fuzz-failure\n";
}

void keep_and_abort(int) {
  keep_input();
  std::_Exit(1);
}

void run() {
  // In memory of its own size, so that the sanitizers see a byte too many.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::vector<std::string> read_corpus(const char* folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry);
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

/// One random change.
void mutate(std::string& text, const std::vector<std::string>& corpus, std::mt19937& random) {
  static const std::string words[] = {
      "[",          "]",         "{",          "}",       ",",   ":",    "\"", "\\",    " ",
      "null",       "-",         ".",          "e",       "E+",  "0",    "9",  "1e-40", "123456789",
      "0000000000", "\"data\":", "\"rows\":[", "\\u0064", "NaN", "true", "\n", "\xff"};
  const auto place = [&] { return random() % (text.size() + 1); };
  switch (random() % 6) {
    case 0:
      if (!text.empty()) text[random() % text.size()] ^= static_cast<char>(1 << random() % 8);
      break;
    case 1:
      text.insert(place(), words[random() % std::size(words)]);
      break;
    case 2:
      text.erase(place(), random() % 20);
      break;
    case 3: {
      const std::string copy = text.substr(place(), random() % 60);
      text.insert(place(), copy);
      break;
    }
    case 4: {
      const std::string& other = corpus[random() % corpus.size()];
      text = text.substr(0, place()) + other.substr(random() % (other.size() + 1));
      break;
    }
    default:
      if (!text.empty()) text[random() % text.size()] = static_cast<char>('0' + random() % 10);
  }
  text.resize(std::min(text.size(), kMostBytes));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "expected a folder of inputs\n";
    return 2;
  }
  const std::vector<std::string> corpus = read_corpus(argv[1]);
  const std::chrono::duration<double> time(argc > 2 ? std::atof(argv[2]) : 5);
  std::mt19937 random(argc > 3 ? std::atoi(argv[3]) : 1);
  std::signal(SIGABRT, keep_and_abort);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_input);

  for (const std::string& seed : corpus) {
    input = seed;
    run();
  }
  const auto begin = std::chrono::steady_clock::now();
  size_t runs = corpus.size();
  for (; !corpus.empty() && std::chrono::steady_clock::now() - begin < time; ++runs) {
    input = corpus[random() % corpus.size()];
    for (uint32_t changes = random() % 6 + 1; changes-- > 0;) mutate(input, corpus, random);
    run();
  }
  std::cout << runs << " inputs, none failed\n";
  return corpus.empty() ? 2 : 0;
}
