// Where `muster catalog add` keeps the user's own entries.
#pragma once

#include <string>
#include <vector>

#include "muster/core/result.h"

namespace muster::app {

// $MUSTER_CATALOG, else $XDG_DATA_HOME/muster/catalog, else ~/.local/share/muster/catalog. Fails when no home is known.
Result<std::string> user_catalogue_folder();
std::vector<std::string> user_catalogue_files();  // sorted; empty when there is no folder

}  // namespace muster::app
