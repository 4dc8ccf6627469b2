from __future__ import annotations

import cn2an
import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.spoken import spoken
from realtime_venus.engines.cascade.spoken_zh import cardinal

READINGS = """
价格是¥359 | 价格是三百五十九元
¥49.99 | 四十九点九九元
$49.99 | 四十九点九九美元
€5 | 五欧元
5元 | 五元
2元 | 两元
¥3.5万 | 三点五万元
¥100-200 | 一百到两百元
-$5 | 负五美元
一共2个人 | 一共两个人
2米 | 两米
2小时 | 两小时
22个 | 二十二个
2号 | 二号
7月4日 | 七月四日
12月 | 十二月
第2次 | 第二次
第1名 | 第一名
200元 | 两百元
12000 | 一万两千
20000 | 两万
105 | 一百零五
1005 | 一千零五
1,234,567 | 一百二十三万四千五百六十七
3.5万 | 三点五万
1.5亿 | 一点五亿
大约300多人 | 大约三百多人
3.14 | 三点一四
-7 | 负七
50% | 百分之五十
-3.5% | 负百分之三点五
10%-15% | 百分之十到百分之十五
5‰ | 千分之五
1/2 | 二分之一
2 1/2 | 二又二分之一
2026年11月30日 | 二零二六年十一月三十日
2026-11-30 | 二零二六年十一月三十日
3/4/2026 | 二零二六年三月四日
2024-2025年 | 二零二四到二零二五年
1990s | 一九九零年代
5000年历史 | 五千年历史
2000年前 | 两千年前
2030年前 | 二零三零年前
公元前221年 | 公元前二二一年
14:35 | 十四点三十五分
14:30 | 十四点半
9:00 | 九点
2:05 | 两点零五分
3:05 PM | 下午三点零五分
3 pm | 下午三点
9:05:30 | 九点零五分三十秒
10:30-12:00 | 十点半到十二点
8点 | 八点
2点30分 | 两点三十分
比分是3:2 | 比分是三比二
25°C | 二十五度
-5℃ | 零下五度
72°F | 七十二华氏度
10km | 十公里
60km/h | 每小时六十公里
20m² | 二十平方米
16GB内存 | 十六 GB 内存
5kg | 五公斤
2L水 | 两升水
5-10分钟 | 五到十分钟
5-10km | 五到十公里
5~10人 | 五到十人
13812345678 | 幺三八，幺二三四，五六七八
010-12345678 | 零幺零，幺二三四五六七八
请拨打110 | 请拨打幺幺零
订单号是4712 | 订单号是四七一二
007 | 零零七
301路 | 三零一路
2 + 3 = 5 | 二加三等于五
7 - 2 = 5 | 七减二等于五
3 × 4 = 12 | 三乘以四等于十二
10 / 2 = 5 | 十除以二等于五
x^2 | x 的平方
3×10^8 m/s | 每秒三乘以十的八次方米
π约等于3.14 | 派约等于三点一四
GPT-4 | GPT 四
iPhone 15 Pro很贵 | iPhone 十五 Pro 很贵
A380飞机 | A 三八零飞机
5G网络 | 五 G 网络
２０２６年 | 二零二六年
½ | 二分之一
"""


@pytest.mark.parametrize("line", READINGS.strip().splitlines())
def test_readings(line: str) -> None:
    written, said = line.split(" | ")
    assert spoken(written, Language.ZH) == said


@given(st.integers(0, 10**16 - 1))
def test_whole_numbers_mean_what_they_say(value: int) -> None:
    said = cardinal(value).replace("两", "二")
    assert cn2an.cn2an(said, "normal") == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "零"),
        (10, "十"),
        (12, "十二"),
        (110, "一百一十"),
        (10_010, "一万零一十"),
        (200_000_000, "两亿"),
        (-3, "负三"),
    ],
)
def test_cardinals(value: int, said: str) -> None:
    assert cardinal(value) == said
