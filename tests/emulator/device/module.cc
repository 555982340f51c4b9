#include "tests/emulator/device/module.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <unordered_map>

#include "tests/emulator/container.h"
#include "tests/emulator/device/shared_usage.h"
#include "tests/emulator/driver/driver_codes.h"

namespace emulator {
namespace {

constexpr uint32_t kArchitecture = 90;

struct Search {
  ElfW(Addr) base = 0;
  GridLaunch::SharedRange found;
};

int visit(dl_phdr_info* info, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  if (info->dlpi_addr != search.base) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
    search.found = {static_cast<std::byte*>(info->dlpi_tls_data), info->dlpi_phdr[i].p_memsz};
  }
  return 1;
}

// Version and name of the newest PTX of CUDA 12.4, the one older driver that tests ask for, and 13.
constexpr int kOlderDriver = 12040;
const char* newest_ptx(int driver) { return driver <= kOlderDriver ? "8.4" : "9.0"; }

// The container in a text of PTX.
int compile(const char* text, int driver, std::string& container) {
  constexpr char kVersion[] = ".version ";
  const char* version = std::strstr(text, kVersion);
  const char* digits = std::strstr(text, kContainerInText);
  if (version == nullptr || digits == nullptr) return kInvalidImage;
  version += sizeof kVersion - 1;
  if (std::strncmp(version, newest_ptx(driver), 3) > 0) return kUnsupportedPtxVersion;
  digits += sizeof kContainerInText - 1;
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (; digits[0] >= '0' && digits[1] >= '0'; digits += 2) {
    container += static_cast<char>(value(digits[0]) * 16 + value(digits[1]));
  }
  return container.size() > sizeof(ContainerHeader) && is_container(container.data())
             ? kSuccess
             : kInvalidImage;
}

}  // namespace

std::unique_ptr<Module> Module::load(const void* image, int driver, int* code) {
  std::string compiled;
  if (!is_container(image)) {
    *code = compile(static_cast<const char*>(image), driver, compiled);
    if (*code != kSuccess) return nullptr;
    image = compiled.data();
  }
  ContainerHeader header;
  std::memcpy(&header, image, sizeof header);
  *code = kInvalidImage;
  if (compiled.empty() && static_cast<int>(header.toolkit) > driver / 1000) return nullptr;
  *code = kNoBinaryForGpu;
  if (header.architecture != kArchitecture) return nullptr;

  *code = kInvalidImage;
  const int file = ::memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  const char* bytes = static_cast<const char*>(image) + sizeof header;
  const bool is_written =
      ::write(file, bytes, header.object_bytes) == static_cast<ssize_t>(header.object_bytes);
  // By its own name and not /proc/self/fd/N alone, which the loader would take for one it has.
  static std::atomic<uint64_t> loads{0};
  std::string path = "/proc/self/fd/";
  for (uint64_t slashes = loads++; slashes > 0; slashes >>= 1) path += (slashes & 1) ? "./" : "/";
  path += std::to_string(file);
  void* handle = is_written ? ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  ::close(file);
  if (handle == nullptr) return nullptr;
  auto module = std::unique_ptr<Module>(new Module(handle, {bytes, header.object_bytes}));
  if (module->kernels_ == nullptr || module->shared_anchor_ == nullptr) return nullptr;
  *code = kSuccess;
  return module;
}

Module::Module(void* handle, std::string object)
    : handle_(handle),
      object_(std::move(object)),
      kernels_(static_cast<const lf_emu::Kernel*>(::dlsym(handle, "lf_emu_kernels"))),
      shared_anchor_(reinterpret_cast<void* (*)()>(::dlsym(handle, "lf_emu_shared_anchor"))) {
  static std::atomic<uint64_t> ids{0};
  id_ = ids++;
}

Module::~Module() { ::dlclose(handle_); }

const lf_emu::Kernel* Module::find(const std::string& name) const {
  for (const lf_emu::Kernel* kernel = kernels_; kernel->name != nullptr; ++kernel) {
    if (name == kernel->name) return kernel;
  }
  return nullptr;
}

size_t Module::static_shared_bytes(const std::string& kernel) const {
  return emulator::static_shared_bytes(object_, kernel);
}

GridLaunch::SharedRange Module::static_shared() const {
  thread_local std::unordered_map<uint64_t, GridLaunch::SharedRange> known;
  auto [entry, is_new] = known.try_emplace(id_);
  if (is_new) {
    shared_anchor_();  // makes the loader give this thread its instance
    Search search;
    link_map* map = nullptr;
    if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0) search.base = map->l_addr;
    ::dl_iterate_phdr(&visit, &search);
    entry->second = search.found;
  }
  return entry->second;
}

}  // namespace emulator
