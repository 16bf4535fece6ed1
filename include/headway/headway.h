// All of libheadway: tensors, attention, layers, training and safetensors files. headway/text.h adds libheadway_text:
// tokenizers and translation.
#pragma once

#include "headway/activation.h"
#include "headway/attention.h"
#include "headway/autograd.h"
#include "headway/device.h"
#include "headway/dtype.h"
#include "headway/error.h"
#include "headway/info.h"
#include "headway/layers.h"
#include "headway/module.h"
#include "headway/multi_head_attention.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/random.h"
#include "headway/safetensors.h"
#include "headway/shape.h"
#include "headway/tensor.h"
#include "headway/threads.h"
#include "headway/training.h"
#include "headway/transformer.h"
#include "headway/version.h"
