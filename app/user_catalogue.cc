#include "user_catalogue.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace muster::app {

Result<std::string> user_catalogue_folder() {
  if (const char* own = std::getenv("MUSTER_CATALOG"); own != nullptr && *own != '\0') return std::string(own);
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data != '\0')
    return std::string(data) + "/muster/catalog";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::string(home) + "/.local/share/muster/catalog";
  return fail("no folder for your own catalogue entries: set MUSTER_CATALOG, XDG_DATA_HOME or HOME");
}

std::vector<std::string> user_catalogue_files() {
  std::vector<std::string> found;
  const Result<std::string> folder = user_catalogue_folder();
  std::error_code error;
  if (!folder) return found;
  for (std::filesystem::directory_iterator it(*folder, error), end; !error && it != end; it.increment(error)) {
    const std::string extension = it->path().extension().string();
    if (extension == ".yaml" || extension == ".yml" || extension == ".json") found.push_back(it->path().string());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace muster::app
