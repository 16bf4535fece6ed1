// Everything that Headway offers.
#pragma once

#include "headway/attention.h"
#include "headway/device.h"
#include "headway/dtype.h"
#include "headway/error.h"
#include "headway/info.h"
#include "headway/safetensors.h"
#include "headway/shape.h"
#include "headway/tensor.h"
#include "headway/threads.h"
