"""The families of timm: one model each, of the smallest."""

# Those that are built in a moment.
QUICK = (
    "beit_base_patch16_224", "botnet26t_256", "cait_xxs24_224", "convmixer_768_32", "convnext_atto", "convnextv2_atto",
    "cpubone_nano", "cs3darknet_focus_s", "darknet17", "davit_tiny", "dla46x_c", "dpn48b", "efficientnet_lite0",
    "efficientvim_m1", "efficientvit_b0", "efficientvit_m0", "ese_vovnet19b_slim_dw", "eva02_tiny_patch14_224",
    "fasternet_t0", "fastvit_t8", "fbnetc_100", "gernet_s", "hgnet_tiny", "hgnetv2_b0", "hiera_tiny_224",
    "lambda_resnet26t", "lcnet_035", "lcnetv2_small", "legacy_seresnet18", "legacy_xception", "levit_128s",
    "lowformer_b0", "mixer_s32_224", "mnasnet_small", "mobilenetv2_035", "mobilenetv3_small_050",
    "mobilenetv4_conv_small_035", "pit_ti_224", "poolformerv2_s12", "pvt_v2_b0", "regnetx_002", "regnety_002",
    "repvgg_a0", "res2next50", "resnest14d", "resnet10t", "resnet18", "resnetv2_18", "rexnet_100", "sam2_hiera_tiny",
    "samvit_base_patch16_224", "selecsls42", "semnasnet_050", "shvit_s1", "skresnet18", "starnet_s050",
    "swin_tiny_patch4_window7_224", "test_byobnet", "test_convnext", "test_efficientnet", "test_mambaout", "test_nfnet",
    "test_resnet", "test_vit", "tinynet_e", "vgg11", "visformer_tiny", "vit_srelpos_small_patch16_224",
    "wide_resnet50_2", "xception41p",
)  # fmt: skip

# Those that take longer.
SLOWER = (
    "beitv2_base_patch16_224", "caformer_s18", "coat_tiny", "coatnet_nano_rw_224", "convformer_s18", "convit_tiny",
    "crossvit_tiny_240", "csatv2", "deit_tiny_distilled_patch16_224", "deit_tiny_patch16_224", "densenet121",
    "edgenext_xx_small", "efficientformer_l1", "efficientformerv2_s0", "flexivit_small", "focalnet_tiny_srf",
    "gcvit_xxtiny", "gemma4_vit_167m", "ghostnet_050", "ghostnetv2_100", "gmlp_ti16_224", "halonet_h1", "hardcorenas_b",
    "hrnet_w18_small", "iformer_t", "inception_next_atto", "inception_resnet_v2", "inception_v3", "inception_v4",
    "maxvit_pico_rw_256", "mobilenetv5_base", "mobileone_s0", "mobilevit_xxs", "mobilevitv2_050", "mvitv2_tiny",
    "naflexvit_base_patch16_parfac_gap", "nest_tiny", "nextvit_small", "qwen3_vit_88m", "rdnet_tiny", "repghostnet_050",
    "repvit_m1", "resmlp_12_224", "sequencer2d_s", "swiftformer_xs", "swinv2_cr_tiny_224", "swinv2_tiny_window8_256",
    "tiny_vit_5m_224", "tnt_s_legacy_patch16_224", "tresnet_m", "twins_svt_small", "vit_small_patch14_dinov2",
    "vit_tiny_patch16_224", "vit_tiny_patch16_dinov3_qkvb", "vit_tiny_r_s16_p8_224", "vitamin_small_224", "volo_d1_224",
    "xcit_nano_12_p8_224",
)  # fmt: skip

MODELS = (*QUICK, *SLOWER)

# What does not take images of these sizes, as of timm 1.0.31, which takes some that 1.0.29 did not.
REFUSED = {
    64: {
        "crossvit_tiny_240", "efficientformer_l1", "halonet_h1", "inception_resnet_v2", "inception_v3", "inception_v4",
    },
    96: {"crossvit_tiny_240", "efficientformer_l1", "halonet_h1"},
}  # fmt: skip
