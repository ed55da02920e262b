// The hand-written peer of the benchmark: takes one command a line and answers each with one line
// of JSON.
//
//   load SAMPLESxPOSITIONS      reads the batch in the folder of that name
//   answer LOSS STYLE           runs once: the loss, the milliseconds, the gradients as
//   gradients.f32 time LOSS STYLE RUNS        the milliseconds of each run, after one that does not
//   count
//
// It takes the number of threads and runs in the folder of the batches. It has one style, whatever
// that is called.
#include <omp.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <ios>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "losses.h"

namespace tokengrad::bench {
namespace {

std::vector<float> read_floats(const std::string& path, std::size_t count) {
  std::vector<float> values(count);
  const auto bytes = static_cast<std::streamsize>(count * sizeof(float));
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(values.data()), bytes)) {
    throw std::runtime_error(path + ": expected " + std::to_string(bytes) + " bytes");
  }
  return values;
}

/// The run of positions of a row whose weight is not 0.
Batch::Run trained_run(const float* weights, std::size_t positions) {
  Batch::Run run{0, positions};
  while (run.begin < positions && weights[run.begin] == 0.0F) ++run.begin;
  while (run.end > run.begin && weights[run.end - 1] == 0.0F) --run.end;
  for (std::size_t i = run.begin; i < run.end; ++i) {
    if (weights[i] == 0.0F)
      throw std::runtime_error("weights: expected one run of trained positions a sample");
  }
  return run;
}

Batch read_batch(const std::string& folder) {
  Batch batch{};
  if (std::sscanf(folder.c_str(), "%zux%zu", &batch.samples, &batch.positions) != 2) {
    throw std::runtime_error("load: expected SAMPLESxPOSITIONS, got " + folder);
  }
  const std::size_t tokens = batch.samples * batch.positions;
  batch.weights = read_floats(folder + "/weights.f32", tokens);
  batch.logprobs = read_floats(folder + "/logprobs.f32", tokens);
  batch.old = read_floats(folder + "/old.f32", tokens);
  batch.reference = read_floats(folder + "/reference.f32", tokens);
  batch.advantages = read_floats(folder + "/advantages.f32", batch.samples);
  for (std::size_t i = 0; i < batch.samples; ++i) {
    batch.trained.push_back(
        trained_run(batch.weights.data() + i * batch.positions, batch.positions));
  }
  return batch;
}

class Peer {
 public:
  /// Carries out a command; throws what is wrong with it.
  std::string obey(const std::string& line) {
    std::istringstream words(line);
    std::string command, name, style;
    words >> command >> name >> style;
    if (command == "load") {
      folder_ = name;
      batch_ = read_batch(name);
      gradients_.assign(batch_.weights.size(), 0.0F);
      return "{}";
    }
    const Loss loss = loss_of(name);
    std::ostringstream answer;
    answer.precision(17);
    if (command == "answer") {
      const double first = timed(loss);
      std::ofstream file(folder_ + "/gradients.f32", std::ios::binary);
      file.write(reinterpret_cast<const char*>(gradients_.data()),
                 static_cast<std::streamsize>(gradients_.size() * sizeof(float)));
      if (!file.flush()) throw std::runtime_error(folder_ + "/gradients.f32 cannot be written");
      answer << "{\"loss\":" << value_ << ",\"first\":" << first << '}';
      return answer.str();
    }
    int runs = 0;
    if (command != "time" || !(words >> runs)) throw std::runtime_error("cannot read: " + line);
    timed(loss);
    answer << "{\"times\":[";
    for (int i = 0; i < runs; ++i) answer << (i > 0 ? "," : "") << timed(loss);
    answer << "]}";
    return answer.str();
  }

 private:
  /// Runs a loss; the milliseconds that it took.
  double timed(Loss loss) {
    const auto start = std::chrono::steady_clock::now();
    value_ = loss(batch_, gradients_);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }

  std::string folder_;
  Batch batch_{};
  std::vector<float> gradients_;
  double value_ = 0.0;
};

}  // namespace
}  // namespace tokengrad::bench

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s THREADS\n", arguments[0]);
    return 2;
  }
  omp_set_num_threads(std::stoi(arguments[1]));
  std::cout << "{\"version\":\"" << COMPILER << "\"}" << std::endl;
  tokengrad::bench::Peer peer;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << peer.obey(line) << std::endl;
    } catch (const std::exception& error) {
      std::cout << "{\"error\":\"" << error.what() << "\"}" << std::endl;
    }
  }
}
