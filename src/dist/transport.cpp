// Apart from all else of this folder, because libheadway_mpi is linked with it too.
#include "headway/transport.h"

namespace headway::inline v0 {

Transport::Messages::~Messages() = default;
Transport::~Transport() = default;

}  // namespace headway::inline v0
