// Runs a fuzzer as a test: its seeds, then a fixed number of inputs made from them by damage.
//
//   fuzz_NAME                 all inputs
//   fuzz_NAME --only N        input N alone; what a failure prints
//   fuzz_NAME --count N       that many
//   fuzz_NAME --seeds DIR     writes the seeds and the corpus, for libFuzzer to start from
//   fuzz_NAME --pack DIR      makes the files there, such as libFuzzer's finds, the corpus
//   fuzz_NAME FILE...         these inputs, such as libFuzzer's crashes
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "tests/fuzz/fuzz.h"
#include "tests/paths/paths.h"

// libFuzzer prescribes the name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// Of this many bytes is what --pack keeps of all inputs: the smallest come first.
constexpr size_t kPackedBytesMax = size_t{96} << 10;

const std::string kCorpus = paths::fixtures("/fuzz/" LFARM_FUZZ_NAME ".corpus");

// A second or two of work for the slowest fuzzer.
constexpr uint64_t kInputs = 50'000;

const char* program = "";
uint64_t current = 0;

// Only what a signal handler may call.
void on_crash(int number) {
  char digits[24];
  int begin = static_cast<int>(sizeof digits);
  uint64_t rest = current;
  do {
    digits[--begin] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  auto say = [](const char* text, size_t size) { (void)!::write(STDERR_FILENO, text, size); };
  const char middle[] = " --only ";
  say("reproduce with: ", 16);
  say(program, std::strlen(program));
  say(middle, sizeof middle - 1);
  say(digits + begin, sizeof digits - static_cast<size_t>(begin));
  say("\n", 1);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void run(const std::string& input) {
  // A copy of exactly the input's size, so that a sanitizer sees reads beyond its end.
  std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

// One piece of damage: a changed, inserted, removed or repeated stretch, or another seed's tail.
void damage(std::string& text, const std::vector<std::string>& seeds, common::Random& random) {
  static constexpr unsigned char kEdges[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
  const size_t at = text.empty() ? 0 : random.below(text.size());
  const size_t length = 1 + random.below(16);
  switch (random.below(6)) {
    case 0:
      if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      break;
    case 1:
      if (!text.empty()) text[at] = static_cast<char>(kEdges[random.below(sizeof kEdges)]);
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:
      text.insert(at, text.substr(at, length));
      break;
    case 4:
      text.resize(at);
      break;
    default: {
      const std::string& other = seeds[random.below(seeds.size())];
      text = text.substr(0, at) + other.substr(std::min(at, other.size()));
    }
  }
}

std::string input_number(uint64_t number, const std::vector<std::string>& seeds) {
  if (number < seeds.size()) return seeds[number];
  common::Random random(number);
  std::string text = seeds[random.below(seeds.size())];
  for (uint64_t i = 1 + random.below(4); i > 0; --i) damage(text, seeds, random);
  return text;
}

int write_seeds(const std::string& directory, const std::vector<std::string>& seeds) {
  if (!common::make_directories(directory).ok()) return 1;
  for (size_t i = 0; i < seeds.size(); ++i) {
    auto written =
        common::write_file_atomic(common::cat(directory, "/seed_", i), common::as_bytes(seeds[i]));
    if (!written.ok()) {
      std::fprintf(stderr, "%s\n", written.error().message.c_str());
      return 1;
    }
  }
  return 0;
}

std::vector<std::string> corpus() {
  auto packed = common::read_file(kCorpus);
  return packed.ok() ? fuzz::unpack(*packed) : std::vector<std::string>{};
}

// What broke something first, under the names that libFuzzer gives it, then by size.
int pack_directory(const char* directory) {
  std::vector<std::pair<bool, std::string>> inputs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    std::string name = entry.path().filename().string();
    bool is_find = name.find("crash-") == std::string::npos &&
                   name.find("timeout-") == std::string::npos &&
                   name.find("oom-") == std::string::npos;
    auto content = common::read_file(entry.path().string());
    if (content.ok()) inputs.emplace_back(is_find, std::move(*content));
  }
  std::sort(inputs.begin(), inputs.end(), [](const auto& a, const auto& b) {
    return std::make_tuple(a.first, a.second.size(), std::string_view(a.second)) <
           std::make_tuple(b.first, b.second.size(), std::string_view(b.second));
  });
  size_t bytes = 0;
  std::vector<std::string> kept;
  for (auto& [is_find, input] : inputs) {
    bytes += input.size();
    if (is_find && bytes > kPackedBytesMax) break;
    kept.push_back(std::move(input));
  }
  std::printf("%zu of %zu inputs kept\n", kept.size(), inputs.size());
  auto written = common::write_file_atomic(kCorpus, common::as_bytes(fuzz::pack(kept)));
  if (!written.ok()) std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return written.ok() ? 0 : 1;
}

int run_files(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    auto content = common::read_file(argv[i]);
    if (!content.ok()) {
      std::fprintf(stderr, "%s\n", content.error().message.c_str());
      return 2;
    }
    run(*content);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  program = argv[0];
  std::vector<std::string> seeds = fuzz::seeds();
  for (std::string& input : corpus()) seeds.push_back(std::move(input));
  const std::string option = argc > 1 ? argv[1] : "";
  if (option == "--seeds" && argc == 3) return write_seeds(argv[2], seeds);
  if (option == "--pack" && argc == 3) return pack_directory(argv[2]);
  if (argc > 1 && option.rfind("--", 0) != 0) return run_files(argc, argv);
  uint64_t first = 0, count = seeds.size() + kInputs;
  if (option == "--only" && argc == 3) {
    first = std::strtoull(argv[2], nullptr, 10);
    count = 1;
  } else if (option == "--count" && argc == 3) {
    count = std::strtoull(argv[2], nullptr, 10);
  } else if (argc > 1) {
    std::fprintf(stderr, "usage: %s [--only N | --count N | --seeds DIR | --pack DIR | FILE...]\n",
                 program);
    return 2;
  }
  for (int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(number, on_crash);
  for (current = first; current < first + count; ++current) run(input_number(current, seeds));
  std::printf("%llu inputs\n", static_cast<unsigned long long>(count));
  return 0;
}
