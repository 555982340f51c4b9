// What NVRTC makes of fixed kernels for sm_90a, held against golden figures: a change that narrows
// a load or adds a spill is told here, where there is no GPU to be slower.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "common/base/cat.h"
#include "common/cost/gpu_machine.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/nest/lower_structure.h"
#include "common/schedule/gpu_nest.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "tests/bench/gpu_static/plan_traffic.h"
#include "tests/bench/gpu_static/static_kernel.h"
#include "tests/golden/gpu_static_kernels.h"
#include "tests/unit/codegen/kept_cubins.h"
#include "worker/codegen/cuda/cuda.h"

namespace golden {
namespace {

using common::cat;

const char* const kTarget = "cuda-sm_90a";
const char* const kArchitecture = "sm_90a";

// Whether more is better; of the others less is.
const std::map<std::string, bool>& figures() {
  static const std::map<std::string, bool> kFigures = {
      {"load_bytes_lane", true},
      {"store_bytes_lane", true},
      {"in_flight_bytes", true},
      {"tensor_share", true},
      {"registers", false},
      {"spill_bytes", false},
      {"divisions_in_loops", false},
      {"barriers_step", false},
      {"sectors_ratio", false},
      {"shared_ratio", false},
      {"instructions_per_byte", false},
      {"copy_share", true},
      {"roofline_share", true},
      {"tensor_lead", true},
  };
  return kFigures;
}

using Values = std::map<std::string, double>;
using Table = std::map<std::string, Values>;  // by kernel

double rounded(double value) {
  double digits = std::pow(10, 1 - std::floor(std::log10(std::max(1e-9, std::abs(value)))));
  return std::round(value * digits) / digits;
}

Values values_of(const bench::StaticKernel& k) {
  const bench::KernelCode& code = k.code.value();
  Values values = {
      {"load_bytes_lane", code.load_bytes},
      {"store_bytes_lane", code.store_bytes},
      {"in_flight_bytes", static_cast<double>(code.in_flight_bytes)},
      {"tensor_share", rounded(code.tensor_instructions / code.instructions)},
      {"registers", code.registers},
      {"spill_bytes", static_cast<double>(code.local_bytes)},
      {"divisions_in_loops", static_cast<double>(code.divisions_in_loops)},
      {"barriers_step", static_cast<double>(code.barriers_step)},
      {"instructions_per_byte", rounded(k.facts.thread_instructions / k.asked_bytes)},
  };
  // What a copy of the least bytes takes, over what the kernel is predicted to take, without
  // launches.
  const common::GpuMachine& machine = common::gpu_machine_of_target(kTarget);
  bool is_streamed =
      k.facts.dram_bytes / machine.dram_bytes_per_ns > k.products / machine.half_tensor_per_ns;
  bool is_product = k.form == common::Template::kAttention || k.form == common::Template::kTile;
  if (k.form == common::Template::kLoops || (is_product && is_streamed)) {
    values["copy_share"] = rounded(k.floor_ns / common::kGpuDramShare / k.time.total_ns);
  }
  // Of products that memory does not bound: the share of the machine's rate, and the time of the
  // tensor cores over the longest of what they wait for.
  if (is_product && !is_streamed) {
    values["roofline_share"] = rounded(k.floor_ns / k.time.total_ns);
    values["tensor_lead"] =
        rounded(k.time.tensor_ns / std::max({k.time.issue_ns, k.time.shared_ns, k.time.l2_ns}));
  }
  if (k.accesses && k.accesses->sectors_ratio > 0) {
    values["sectors_ratio"] = rounded(k.accesses->sectors_ratio);
  }
  if (k.accesses && k.accesses->shared_ratio > 0) {
    values["shared_ratio"] = rounded(k.accesses->shared_ratio);
  }
  return values;
}

std::string print(const std::string& compiler, const Table& table) {
  std::string text = cat("# figures of gpu-static, see docs/measuring.md; compiled by ", compiler,
                         " for ", kArchitecture, "\n");
  for (const auto& [kernel, values] : table) {
    text += kernel;
    for (const auto& [name, value] : values) {
      std::ostringstream number;
      number << value;
      text += cat(" ", name, "=", number.str());
    }
    text += "\n";
  }
  return text;
}

Table parse(std::istream& in) {
  Table table;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    std::string kernel, word;
    words >> kernel;
    while (words >> word) {
      size_t equals = word.find('=');
      table[kernel][word.substr(0, equals)] = std::stod(word.substr(equals + 1));
    }
  }
  return table;
}

// One line for each figure that is not what it was.
std::vector<std::string> differences(const Table& was, const Table& is) {
  std::vector<std::string> lines;
  auto number = [](double value) {
    std::ostringstream text;
    text << value;
    return text.str();
  };
  for (const auto& [kernel, values] : is) {
    auto known = was.find(kernel);
    if (known == was.end()) {
      lines.push_back(kernel + " is not in the golden file");
      continue;
    }
    for (const auto& [name, value] : values) {
      auto before = known->second.find(name);
      if (before == known->second.end()) {
        lines.push_back(cat(kernel, ": ", name, " is ", number(value), " and was not there"));
      } else if (before->second != value) {
        bool is_better = (value > before->second) == figures().at(name);
        lines.push_back(cat(kernel, ": ", name, " was ", number(before->second), ", is ",
                            number(value), is_better ? ", which is better" : ""));
      }
    }
    for (const auto& [name, value] : known->second) {
      if (values.contains(name)) continue;
      lines.push_back(cat(kernel, ": ", name, " was ", number(value), ", is not there"));
    }
  }
  for (const auto& [kernel, values] : was) {
    if (!is.contains(kernel)) lines.push_back(kernel + " is in the golden file alone");
  }
  return lines;
}

// NVRTC, or what it made of the same text before.
class Compiler {
 public:
  explicit Compiler(std::shared_ptr<const common::Nvrtc> nvrtc)
      : kept_(directory()), nvrtc_(nvrtc), compile_(bench::static_compiler(nvrtc, kArchitecture)) {}

  common::Result<common::Bytes> operator()(const std::string& text) const {
    common::Hasher hasher;
    hasher.text("gpu-static").text(nvrtc_->build()).text(kArchitecture).text(text);
    const common::Digest key = hasher.finish();
    if (auto known = kept_.find(key)) return *std::move(known);
    LFARM_ASSIGN_OR_RETURN(common::Bytes cubin, compile_(text));
    kept_.put(key, cubin);
    return cubin;
  }

 private:
  static std::string directory() {
    const char* directory = std::getenv("LFARM_KEPT_CUBINS");
    return directory != nullptr ? directory : "";
  }
  testing_codegen::KeptCubins kept_;
  std::shared_ptr<const common::Nvrtc> nvrtc_;
  std::function<common::Result<common::Bytes>(const std::string&)> compile_;
};

common::Status add_nest(common::Kernel& kernel) {
  return common::add_nest(kernel, {common::machine_of({kTarget}), kTarget, {}});
}

common::Result<bench::StaticKernel> told_of(NamedKernel& named, const bench::StaticTools& tools) {
  LFARM_RETURN_IF_ERROR(add_nest(named.kernel));
  return bench::static_kernel(named.kernel, {}, bench::lone_traffic(named.kernel.body, {}), tools);
}

TEST(GpuStatic, KernelsKeepTheirFigures) {
  auto nvrtc = common::Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << "nothing is compiled: " << nvrtc.error().message;
  const std::string compiler =
      cat("NVRTC ", (*nvrtc)->major_version(), ".", (*nvrtc)->minor_version());
  const std::string path = cat(LFARM_SOURCE_DIR, "/tests/golden/gpu_static.txt");
  const bool updates = std::getenv("LFARM_UPDATE_GOLDEN") != nullptr;
  std::ifstream in(path);
  std::string head;
  std::getline(in, head);
  if (!updates && head.find(cat(compiler, " ")) == std::string::npos) {
    GTEST_SKIP() << "this is " << compiler << "; " << head;
  }
  common::Target target{kTarget};
  worker::CudaCodeGenerator generator(target);
  bench::StaticTools tools{generator, Compiler(*nvrtc), common::gpu_machine_of_target(kTarget)};
  Table table;
  for (NamedKernel& named : gpu_kernels()) {
    auto told = told_of(named, tools);
    ASSERT_TRUE(told.ok()) << named.name << ": " << told.error().message;
    EXPECT_EQ(told->accesses_problem, "") << named.name;
    table[named.name] = values_of(*told);
  }
  if (updates) {
    std::ofstream out(path);
    out << print(compiler, table);
    ASSERT_TRUE(out.flush()) << "cannot write " << path;
    return;
  }
  for (const std::string& line : differences(parse(in), table)) {
    ADD_FAILURE() << line << "\nif that is wanted: run this test with LFARM_UPDATE_GOLDEN=1";
  }
}

// Fails when a search expects another time of a sort than its machine code takes.
TEST(GpuStatic, SortsTakeWhatSearchesExpect) {
  auto nvrtc = common::Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << "nothing is compiled: " << nvrtc.error().message;
  common::Target target{kTarget};
  worker::CudaCodeGenerator generator(target);
  bench::StaticTools tools{generator, Compiler(*nvrtc), common::gpu_machine_of_target(kTarget)};
  for (NamedKernel& named : gpu_kernels()) {
    if (named.kernel.form != common::Template::kSort) continue;
    auto told = told_of(named, tools);
    ASSERT_TRUE(told.ok()) << named.name << ": " << told.error().message;
    double expected = common::predict_ns(named.kernel, {}, common::device_terms(target));
    EXPECT_GT(expected, told->predicted_ns * 0.85) << named.name;
    // The instructions of a block that is alone are in what it waits, too.
    EXPECT_LT(expected, told->predicted_ns * 1.2) << named.name;
  }
}

// Fails when blocks of projections share a multiprocessor otherwise than a search of nests expects.
TEST(GpuStatic, ProjectionsTakeTheRegistersThatSearchesExpect) {
  auto nvrtc = common::Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << "nothing is compiled: " << nvrtc.error().message;
  const common::GpuMachine& machine = common::gpu_machine_of_target(kTarget);
  worker::CudaCodeGenerator generator({kTarget});
  bench::StaticTools tools{generator, Compiler(*nvrtc), machine};
  std::vector<NamedKernel> kernels = gpu_kernels();
  auto named = std::find_if(kernels.begin(), kernels.end(),
                            [](const NamedKernel& each) { return each.name == "gate_and_up"; });
  ASSERT_NE(named, kernels.end());
  const common::Graph body = common::lower_structure(named->kernel.body, common::Kept::kNone);
  auto nest = common::choose_gpu_nest(body, {}, machine, false);
  ASSERT_TRUE(nest.ok()) << nest.error().message;
  auto told = told_of(*named, tools);
  ASSERT_TRUE(told.ok() && told->code);
  const double registers = told->code->registers;
  EXPECT_NEAR(nest->facts[0].registers, registers, 0.2 * registers);
}

bool has_warpgroups(const worker::KernelSource& source) {
  return source.text.find("lf_wgmma_") != std::string::npos;
}

// Fails when the compiler makes each product wait for the one before it, which it says.
TEST(GpuStatic, ProductsAreNotSerialised) {
  auto nvrtc = common::Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << "nothing is compiled: " << nvrtc.error().message;
  worker::CudaCodeGenerator generator({kTarget});
  int multiplied = 0;
  for (NamedKernel& named : gpu_kernels()) {
    ASSERT_TRUE(add_nest(named.kernel).ok()) << named.name;
    auto source = generator.generate(named.kernel);
    if (!source.ok() || !has_warpgroups(*source)) continue;
    SCOPED_TRACE(named.name);
    ++multiplied;
    auto output = (*nvrtc)->compile(generator.preamble() + source->text, kArchitecture,
                                    {"--std=c++17", "--ptxas-options=-v"});
    ASSERT_TRUE(output.ok()) << output.error().message;
    EXPECT_NE(output->log.find("Used "), std::string::npos) << "no log: " << output->log;
    EXPECT_EQ(output->log.find("serializ"), std::string::npos) << output->log;
  }
  EXPECT_GE(multiplied, 8);
}

// Fails when a search expects another time of a product by warpgroups than its machine code takes.
TEST(GpuStatic, ProductsTakeWhatSearchesExpect) {
  auto nvrtc = common::Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << "nothing is compiled: " << nvrtc.error().message;
  common::Target target{kTarget};
  worker::CudaCodeGenerator generator(target);
  bench::StaticTools tools{generator, Compiler(*nvrtc), common::gpu_machine_of_target(kTarget)};
  for (NamedKernel& named : gpu_kernels()) {
    ASSERT_TRUE(add_nest(named.kernel).ok()) << named.name;
    auto source = generator.generate(named.kernel);
    if (!source.ok() || !has_warpgroups(*source) || source->entry.units.constant() < 132) continue;
    auto told = told_of(named, tools);
    ASSERT_TRUE(told.ok()) << named.name << ": " << told.error().message;
    double expected = common::predict_ns(named.kernel, {}, common::device_terms(target));
    EXPECT_GT(expected, told->predicted_ns * 0.85) << named.name;
    // The instructions of a block that is alone are in what it waits, too.
    EXPECT_LT(expected, told->predicted_ns * 1.2) << named.name;
  }
}

// Fails when what got worse is not told by its name and both numbers, or what got better as such.
TEST(GpuStatic, DifferencesAreTold) {
  std::istringstream was(
      "# head\nsoftmax_rows load_bytes_lane=16 spill_bytes=0 shared_ratio=1\ngone registers=8\n");
  std::istringstream is("softmax_rows load_bytes_lane=2 spill_bytes=0 sectors_ratio=1.5\n");
  Table before = parse(was), after = parse(is);
  EXPECT_EQ(differences(before, after),
            (std::vector<std::string>{"softmax_rows: load_bytes_lane was 16, is 2",
                                      "softmax_rows: sectors_ratio is 1.5 and was not there",
                                      "softmax_rows: shared_ratio was 1, is not there",
                                      "gone is in the golden file alone"}));
  EXPECT_EQ(differences(after, before).front(), "gone is not in the golden file");
  EXPECT_EQ(differences(after, before)[1],
            "softmax_rows: load_bytes_lane was 2, is 16, which is better");
  EXPECT_EQ(differences(before, before), std::vector<std::string>{});
}

}  // namespace
}  // namespace golden
