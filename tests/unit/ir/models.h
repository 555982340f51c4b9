// The models that a test runs over: of those it names the ones that are here, bundled or in the
// optional folder of larger cases.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/paths/paths.h"

// Files, the bundled ones first; a name may give two.
inline std::vector<std::string> model_files(std::initializer_list<const char*> names) {
  std::vector<std::string> files;
  for (const std::string& root : {paths::fixtures("/models"), paths::shared("/models")}) {
    for (const char* name : names) {
      std::string file = root + "/" + name + "/model.pt2";
      if (std::filesystem::exists(file)) files.push_back(file);
    }
  }
  return files;
}

// How a suite over them names its cases.
template <class Info>
std::string model_case_name(const Info& info) {
  std::filesystem::path path(info.param);
  return path.parent_path().filename().string() + "_" + std::to_string(info.index);
}
